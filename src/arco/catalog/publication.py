"""Publications: which attempt at which task made a version of a table, and whether another still may (P35).

A table's chain of versions is the fence. Each version that a pipeline makes names the attempt and the
partitions that it publishes; before a task is given to somebody else, a version with the same content
fences its partitions against earlier attempts. Whoever publishes reads every number above the one that was
the head when the attempt was dispatched, each time anew: the first of its partition wins, all others stop.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import msgspec

from arco.core.errors import AttemptFenced, Invalid, NotFound
from arco.storage.chain import Chain, Head
from arco.storage.collect import DEFAULT_RETENTION_MS
from arco.storage.link import Entry

FLOW = "flow"  # whence a change comes that publishes or fences
ATTEMPT_PROPERTY = "arco.attempt"  # in the summary of a snapshot: an `Attempt` as JSON

WHOLE_TABLE: tuple[str, ...] = ()


class Publication(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a version publishes or fences; no partitions stand for the whole table."""

    attempt_id: str
    task: str  # of one run: the same for all attempts at it
    partitions: tuple[str, ...] = WHOLE_TABLE
    is_fence: bool = False
    code: str | None = None  # the fingerprint of the code that made it
    made_of: str | None = None  # that of the code and of the data that were read

    def concerns(self, partitions: tuple[str, ...]) -> bool:
        """Whether it is about any of these partitions."""
        if not self.partitions or not partitions:
            return True
        return not set(self.partitions).isdisjoint(partitions)


class DispatchedAttempt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An attempt at a task, as it was dispatched.

    `dispatched_at_number` was the head of the table's chain then, -1 if there was no table. All that
    concerns the attempt is above it. Whoever carries it out adds `code` and `made_of`, so that a version
    says what it is made of though nobody lives to tell.
    """

    attempt_id: str
    task: str
    dispatched_at_number: int
    dispatched_at_ms: int
    partitions: tuple[str, ...] = WHOLE_TABLE
    code: str | None = None
    made_of: str | None = None

    def publication(self, *, is_fence: bool = False) -> Publication:
        """What the version says that this attempt makes."""
        return Publication(
            attempt_id=self.attempt_id,
            task=self.task,
            partitions=self.partitions,
            is_fence=is_fence,
            code=None if is_fence else self.code,
            made_of=None if is_fence else self.made_of,
        )


@dataclass(frozen=True)
class NumberedPublication:
    """A publication and the number of the version that carries it."""

    number: int
    publication: Publication


@dataclass(frozen=True)
class PublicationStatus:
    """How an attempt stands: `done` is its own publication, `lost_to` what forbids it to publish."""

    done: NumberedPublication | None = None
    lost_to: NumberedPublication | None = None

    @property
    def may_publish(self) -> bool:
        """Whether nobody was faster, not even the attempt itself."""
        return self.done is None and self.lost_to is None


def publication_status(
    attempt: DispatchedAttempt, above: Iterable[NumberedPublication]
) -> PublicationStatus:
    """How an attempt stands by the publications above its dispatch, in the order of their numbers.

    Its own fence, made when it was dispatched, is not above it and does not count against it.
    """
    for each in above:
        said = each.publication
        if each.number <= attempt.dispatched_at_number or not said.concerns(attempt.partitions):
            continue
        if said.attempt_id != attempt.attempt_id:
            return PublicationStatus(lost_to=each)
        if not said.is_fence:
            return PublicationStatus(done=each)
    return PublicationStatus()


def task_of(publication: Publication) -> tuple[str | None, str]:
    """The run and the task that a publication belongs to; no run if its writer named none."""
    run_id, slash, key = publication.task.partition("/")
    return (run_id, key) if slash else (None, run_id)


def published_by_task(
    task: str, above: Iterable[NumberedPublication]
) -> NumberedPublication | None:
    """The publication of any attempt at a task, which the fencer looks for first: found means done."""
    return next(
        (each for each in above if each.publication.task == task and not each.publication.is_fence),
        None,
    )


_REMEMBERED = 100_000


class PublicationLog:
    """The publications on chains of one kind, whose numbers `read` knows how to read."""

    def __init__(
        self,
        read: Callable[[Entry], Publication | None],
        *,
        retention_ms: int = DEFAULT_RETENTION_MS,
    ) -> None:
        self._read = read
        self._retention_ms = retention_ms
        self._known: OrderedDict[tuple[str, int], Publication | None] = OrderedDict()

    async def own(
        self, chain: Chain, attempt: DispatchedAttempt, head: Head
    ) -> NumberedPublication | None:
        """The attempt's own publication up to `head`; None if it may publish behind it.

        `AttemptFenced` if another attempt has published or fenced its partitions, or if it is too old to
        be sure: what it has staged may be gone, or the numbers that would tell. To be asked again for
        every head, since the answer may be another one.
        """
        if not -1 <= attempt.dispatched_at_number <= head.number:
            raise Invalid(
                f"the attempt says that it was dispatched at version {attempt.dispatched_at_number}, "
                f"and the table is at {head.number}"
            )
        above = await self.above(chain, attempt.dispatched_at_number, head)
        standing = publication_status(attempt, above)
        if standing.lost_to is not None:
            raise AttemptFenced(_reason(standing.lost_to))
        if standing.done is None:
            self._refuse_old(attempt, chain.store.runtime.clock.now_ms())
        return standing.done

    async def above(self, chain: Chain, since: int, head: Head) -> list[NumberedPublication]:
        """All publications and fences above a number, up to `head`; `AttemptFenced` if some are gone."""
        if head.entry is not None:
            self.learn(chain, head.entry)
        wanted = range(since + 1, head.number + 1)
        found = {n: self._known[chain.path, n] for n in wanted if (chain.path, n) in self._known}
        missing = [number for number in wanted if number not in found]
        if missing:
            try:
                entries = await chain.history(missing[0], missing[-1])
            except NotFound as collected:
                raise AttemptFenced(
                    "the attempt is so old that what became of its table since was collected"
                ) from collected
            found |= {entry.number: self.learn(chain, entry) for entry in entries}
        return [
            NumberedPublication(n, said) for n, said in sorted(found.items()) if said is not None
        ]

    def learn(self, chain: Chain, entry: Entry) -> Publication | None:
        """Remember a number that was read, or written."""
        said = self._known[chain.path, entry.number] = self._read(entry)
        while len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        return said

    def _refuse_old(self, attempt: DispatchedAttempt, now_ms: int) -> None:
        """Half the retention is left for clocks that differ, and for what is under way."""
        if now_ms - attempt.dispatched_at_ms > self._retention_ms // 2:
            hours = self._retention_ms // 2 // 3_600_000
            raise AttemptFenced(
                f"the attempt was dispatched more than {hours} hours ago, and what it has staged may be "
                "collected at any time"
            )


def _reason(winner: NumberedPublication) -> str:
    said = winner.publication
    done = "was given" if said.is_fence else "has published"
    which = ", ".join(said.partitions[:3]) or "the table"
    return f"attempt {said.attempt_id} of {said.task} {done} {which} at version {winner.number}"
