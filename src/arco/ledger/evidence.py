"""Evidence: whether a request has landed in its target chain (P11).

One look gives the head and the verdict on everything up to that very head. Whoever validates against the
head and appends after it has then looked at every number below the one it creates; a head read apart
from the look would leave a gap in which the request may have landed.
"""

from collections.abc import Callable
from dataclasses import dataclass

from arco.core.errors import NotFound, Unknown
from arco.ledger.claim import Claim
from arco.storage.chain import Chain, Head
from arco.storage.link import Entry


@dataclass(frozen=True)
class Look:
    """The head of the target, and the entry up to it that carries the request, if there is one."""

    head: Head
    mine: Entry | None


async def look(chain: Chain, claim: Claim, request_ids: Callable[[Entry], list[str]]) -> Look:
    """Read the target from the claim's base to its head, looking for the claim's request."""
    head = await chain.head()
    try:
        since = await chain.history(max(0, claim.base), head.number)
    except NotFound as collected:
        raise Unknown(
            "what would show whether this request has landed was collected"
        ) from collected
    for entry in since:
        if claim.request_id in request_ids(entry):
            return Look(head, entry)
    return Look(head, None)
