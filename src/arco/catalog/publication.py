"""Publications: which attempt at which task made a version of a table, and whether another still may (P35).

A table's chain of versions is the fence. Each version that a pipeline makes names the attempt and the
partitions that it publishes; before a task is given to another worker, a version with unchanged content
fences its partitions against earlier attempts. A publisher reads every number above the head at the
dispatch of its attempt: the first publication of a partition wins, all other attempts stop.

The entries of a chain never change, so each is read once and remembered for all attempts. An attempt whose
table has not changed since its dispatch costs no request.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import msgspec

from arco.core.errors import AttemptFenced, Invalid, NotFound
from arco.storage.chain import Chain, Head
from arco.storage.chain_gc import DEFAULT_RETENTION_MS
from arco.storage.entry import Entry

FLOW = "flow"  # the origin of changes that publish or fence
ATTEMPT_PROPERTY = "arco.attempt"  # in the summary of a snapshot: a `DispatchedAttempt` as JSON

WHOLE_TABLE: tuple[str, ...] = ()


class Publication(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a version publishes or fences; no partitions mean the entire table."""

    attempt_id: str
    task: str  # of one run: the same for all attempts at it
    partitions: tuple[str, ...] = WHOLE_TABLE
    is_fence: bool = False
    code: str | None = None  # the fingerprint of the code that produced it
    made_of: str | None = None  # the fingerprint of the code and of the data that were read

    def concerns(self, partitions: tuple[str, ...]) -> bool:
        """Whether it includes any of these partitions."""
        if not self.partitions or not partitions:
            return True
        return not set(self.partitions).isdisjoint(partitions)


class DispatchedAttempt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An attempt at a task, as it was dispatched.

    `dispatched_at_number` was the head of the table's chain then, -1 if there was no table. All entries
    that concern the attempt are above it. The worker adds `code` and `made_of`, so that a version records
    them even if the worker dies after publishing.
    """

    attempt_id: str
    task: str
    dispatched_at_number: int
    dispatched_at_ms: int
    partitions: tuple[str, ...] = WHOLE_TABLE
    code: str | None = None
    made_of: str | None = None

    def publication(self, *, is_fence: bool = False) -> Publication:
        """The publication that a version of this attempt carries."""
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
    """Whether an attempt may publish: `done` is its own publication, `lost_to` the one that fences it."""

    done: NumberedPublication | None = None
    lost_to: NumberedPublication | None = None


def publication_status(
    attempt: DispatchedAttempt, later: Iterable[NumberedPublication]
) -> PublicationStatus:
    """The status of an attempt, from the publications above its dispatch in the order of their numbers.

    The fence that was made when the attempt was dispatched is not above it.
    """
    for each in later:
        publication = each.publication
        if each.number <= attempt.dispatched_at_number or not publication.concerns(
            attempt.partitions
        ):
            continue
        if publication.attempt_id != attempt.attempt_id:
            return PublicationStatus(lost_to=each)
        if not publication.is_fence:
            return PublicationStatus(done=each)
    return PublicationStatus()


def task_of(publication: Publication) -> tuple[str | None, str]:
    """The run and the task that a publication belongs to; no run if its writer named none."""
    run_id, slash, key = publication.task.partition("/")
    return (run_id, key) if slash else (None, run_id)


def published_by_task(
    task: str, later: Iterable[NumberedPublication]
) -> NumberedPublication | None:
    """The publication of any attempt at a task, if there is one: then the task is done."""
    return next(
        (each for each in later if each.publication.task == task and not each.publication.is_fence),
        None,
    )


_MAX_PUBLICATIONS = 100_000


class PublicationLog:
    """The publications on chains of one kind, whose entries `read` decodes."""

    def __init__(
        self,
        read: Callable[[Entry], Publication | None],
        *,
        retention_ms: int = DEFAULT_RETENTION_MS,
    ) -> None:
        self._read = read
        self._retention_ms = retention_ms
        # Not an `LruCache`: None is a value (an entry without a publication), and the oldest goes first.
        self._publications: OrderedDict[tuple[str, int], Publication | None] = OrderedDict()

    async def own_publication(
        self, chain: Chain, attempt: DispatchedAttempt, head: Head
    ) -> NumberedPublication | None:
        """The attempt's own publication up to `head`; None if it may publish after it.

        `AttemptFenced` if another attempt has published or fenced its partitions, or if the attempt is so
        old that its staged files or the entries above it may be collected. The answer is valid for this
        head only.
        """
        if not -1 <= attempt.dispatched_at_number <= head.number:
            raise Invalid(
                f"the attempt says that it was dispatched at version {attempt.dispatched_at_number}, "
                f"and the table is at {head.number}"
            )
        later = await self.publications_since(chain, attempt.dispatched_at_number, head)
        status = publication_status(attempt, later)
        if status.lost_to is not None:
            raise AttemptFenced(_reason(status.lost_to))
        if status.done is None:
            self._refuse_old(attempt, chain.store.runtime.clock.now_ms())
        return status.done

    async def publications_since(
        self, chain: Chain, since: int, head: Head
    ) -> list[NumberedPublication]:
        """All publications and fences above a number, up to `head`; `AttemptFenced` if some are gone."""
        if head.entry is not None:
            self.learn(chain, head.entry)
        numbers = range(since + 1, head.number + 1)
        publications = {
            n: self._publications[chain.path, n]
            for n in numbers
            if (chain.path, n) in self._publications
        }
        missing = [number for number in numbers if number not in publications]
        if missing:
            try:
                entries = await chain.history(missing[0], missing[-1])
            except NotFound as collected:
                raise AttemptFenced(
                    "the attempt is so old that the versions of its table since then were collected"
                ) from collected
            publications |= {entry.number: self.learn(chain, entry) for entry in entries}
        return [
            NumberedPublication(n, publication)
            for n, publication in sorted(publications.items())
            if publication is not None
        ]

    def learn(self, chain: Chain, entry: Entry) -> Publication | None:
        """Remember an entry that was read or written."""
        publication = self._publications[chain.path, entry.number] = self._read(entry)
        while len(self._publications) > _MAX_PUBLICATIONS:
            self._publications.popitem(last=False)
        return publication

    def _refuse_old(self, attempt: DispatchedAttempt, now_ms: int) -> None:
        """Refuse at half the retention: the rest is a margin for clocks and for requests in flight."""
        if now_ms - attempt.dispatched_at_ms > self._retention_ms // 2:
            hours = self._retention_ms // 2 // 3_600_000
            raise AttemptFenced(
                f"the attempt was dispatched more than {hours} hours ago, and what it has staged may be "
                "collected at any time"
            )


def _reason(winner: NumberedPublication) -> str:
    other = winner.publication
    done = "was given" if other.is_fence else "has published"
    which = ", ".join(other.partitions[:3]) or "the table"
    return f"attempt {other.attempt_id} of {other.task} {done} {which} at version {winner.number}"
