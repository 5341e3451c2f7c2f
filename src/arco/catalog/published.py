"""Whether an attempt may publish: what its table's chain says above the attempt's dispatch (P35).

The numbers of a chain never change, so each is read once and remembered for all attempts. An attempt on
whose table nothing has happened since its dispatch costs no request; else those that nobody has read yet
are, sixteen at a time, and the floor after them.
"""

from collections import OrderedDict
from collections.abc import Callable

from arco.catalog.publication import Attempt, Numbered, Publication, standing_of
from arco.core.errors import AttemptFenced, Invalid, NotFound
from arco.storage.chain import Chain, Head
from arco.storage.chain_gc import DEFAULT_RETENTION_MS
from arco.storage.entry import Entry

_REMEMBERED = 100_000


class Published:
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

    async def own(self, chain: Chain, attempt: Attempt, head: Head) -> Numbered | None:
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
        standing = standing_of(attempt, above)
        if standing.lost_to is not None:
            raise AttemptFenced(_reason(standing.lost_to))
        if standing.done is None:
            self._refuse_old(attempt, chain.store.runtime.clock.now_ms())
        return standing.done

    async def above(self, chain: Chain, since: int, head: Head) -> list[Numbered]:
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
        return [Numbered(n, said) for n, said in sorted(found.items()) if said is not None]

    def learn(self, chain: Chain, entry: Entry) -> Publication | None:
        """Remember a number that was read, or written."""
        said = self._known[chain.path, entry.number] = self._read(entry)
        while len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        return said

    def _refuse_old(self, attempt: Attempt, now_ms: int) -> None:
        """Half the retention is left for clocks that differ, and for what is under way."""
        if now_ms - attempt.dispatched_at_ms > self._retention_ms // 2:
            hours = self._retention_ms // 2 // 3_600_000
            raise AttemptFenced(
                f"the attempt was dispatched more than {hours} hours ago, and what it has staged may be "
                "collected at any time"
            )


def _reason(winner: Numbered) -> str:
    said = winner.publication
    done = "was given" if said.is_fence else "has published"
    which = ", ".join(said.partitions[:3]) or "the table"
    return f"attempt {said.attempt_id} of {said.task} {done} {which} at version {winner.number}"
