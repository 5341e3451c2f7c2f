"""Claims that were left without an outcome: what became of them is looked up and written down.

A retry would find the same out by itself, as long as the evidence is kept. This makes it cheap, and holds
when the evidence is gone.
"""

from arco.catalog.model import TableRow
from arco.catalog.pending_request import ChangeResult
from arco.core.errors import ArcoError
from arco.iceberg.desk import Desk
from arco.iceberg.evidence import look_above
from arco.iceberg.keyed import PROTOCOL, Told, succeeded
from arco.iceberg.naming import named_under
from arco.iceberg.pointer import pointer_of
from arco.iceberg.transact import committed_under
from arco.iceberg.transaction import Transactions
from arco.ledger.claim import Answer, Claim, unfinished_claims

_MOST = 10_000


async def finalise_claims(desk: Desk, transactions: Transactions) -> int:
    """Write down the outcomes of claims that have landed; how many."""
    done = 0
    async for key in unfinished_claims(desk.store, most=_MOST):
        try:
            found = await _found(desk, transactions, key.claim)
            if found is not None and await key.finish(found):
                done += 1
        except ArcoError:
            continue  # the next round, or a retry, will see
    return done


async def _named(desk: Desk, claim: Claim, done: ChangeResult) -> Told:
    """What a change of names is remembered by; a create also by the metadata it began with."""
    row = done.object.row
    if not isinstance(row, TableRow):
        return Told()
    if "spare" not in claim.ids:
        return Told(table_id=row.table_id)
    first = pointer_of(await desk.pointers.chain(row.table_id).read(0))
    return Told(table_id=row.table_id, metadata_location=first.metadata_location)


async def _found(desk: Desk, transactions: Transactions, claim: Claim) -> Answer | None:
    """The answer of a claim of ours that has landed; those of other protocols are not ours to word."""
    ids = claim.ids
    if ids.get("protocol") != PROTOCOL or "removed" in ids:
        return None  # what was set and removed of properties, a retry can tell
    if "transaction" in ids:
        return succeeded(Told()) if await committed_under(transactions, claim) else None
    if "object" in ids:
        done = await named_under(desk, claim)
        return None if done is None else succeeded(await _named(desk, claim, done))
    if not ids["table"]:
        return None
    chain = desk.pointers.chain(ids["table"])
    mine = (await look_above(chain, claim.base, claim.request_id)).mine
    if mine is None:
        return None
    location = pointer_of(mine).metadata_location
    return succeeded(Told(table_id=ids["table"], metadata_location=location))
