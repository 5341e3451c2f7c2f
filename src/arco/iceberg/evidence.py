"""Whether a request has landed on a table's chain (P11)."""

from dataclasses import dataclass

from arco.core.errors import NotFound, Unknown
from arco.iceberg.pointer import pointer_of
from arco.storage.chain import Chain, Head
from arco.storage.entry import Entry


@dataclass(frozen=True)
class Look:
    """The end of a chain, and the number up to it that carries the request, if there is one."""

    head: Head
    mine: Entry | None = None


async def look_above(chain: Chain, number: int, request_id: str) -> Look:
    """The head, and whether the request has landed above `number`, up to that very head.

    One round trip if nothing has happened since. What was there before the request was claimed cannot
    be its own, so `number` itself need not be read again.
    """
    head = await chain.head()
    if head.number <= number:
        return Look(head)
    try:
        since = await chain.history(number + 1, head.number)
    except NotFound as collected:
        raise Unknown(
            "what would show whether this request has landed was collected"
        ) from collected
    return Look(head, next((each for each in since if _carries(each, request_id)), None))


def _carries(entry: Entry, request_id: str) -> bool:
    """A number that names a transaction has not landed by being there; its outcome says (P33)."""
    pointer = pointer_of(entry)
    return pointer.request_id == request_id and pointer.transaction is None
