"""Changes of names, carried out by the catalog under the claim of an Iceberg request.

The catalog's manifests are the evidence: each lists the requests that it carries out, so a claim can be
looked for there whoever has landed it (P10, P11).
"""

from arco.catalog.ddl import Ddl
from arco.catalog.manifest import read_manifest
from arco.catalog.pending_request import ChangeResult, PendingRequest, read_change_result
from arco.core.errors import ArcoError
from arco.iceberg.desk import Desk
from arco.ledger.claim import Claim, find_evidence
from arco.ledger.idempotency import ClaimHold
from arco.storage.entry import Entry


class Verdict(Exception):
    """The catalog has refused a request for good; what it rests on is the newest manifest."""

    def __init__(self, problem: ArcoError) -> None:
        super().__init__(str(problem))
        self.problem = problem


async def base_number(desk: Desk) -> int:
    """A manifest's number that is known to exist, for a claim."""
    known = desk.reader.chain.remembered()
    return (await desk.reader.head()).number if known is None else known.number


async def name_under(
    desk: Desk, claim: Claim, hold: ClaimHold, request: Ddl, actor: str
) -> ChangeResult:
    """Have the catalog carry a request out; `Verdict` if it refuses."""
    ask = PendingRequest(
        request=request,
        actor=actor,
        request_id=claim.request_id,
        new_id=claim.ids["object"],
        arrived_ms=desk.runtime.clock.elapsed_ms(),
        done=desk.runtime.tasks.event(),
        base=claim.base,
        hold=hold,
    )
    try:
        return await desk.committer.submit(ask)
    except ArcoError as problem:
        if not ask.refused:
            raise
        raise Verdict(problem) from problem


async def named_under(desk: Desk, claim: Claim) -> ChangeResult | None:
    """What a claim's request has come to, if it was carried out."""
    seen = await find_evidence(desk.reader.chain, claim, _requests)
    if seen.mine is None:
        return None
    return await read_change_result(desk.reader, claim.request_id, seen.mine.number)


def _requests(entry: Entry) -> list[str]:
    return list(read_manifest(entry).requests)
