"""Describing a view: the catalog alone decides, but only of what is there as a view (P31)."""

from arco.catalog.ddl import UpdateTable
from arco.catalog.model import ObjectKind
from arco.core.ids import new_object_id
from arco.iceberg.desk import Caller, Desk
from arco.iceberg.keyed import Told, in_own_words, refused, succeeded
from arco.iceberg.names import Name, absent, look_up
from arco.iceberg.naming import Verdict, base_number, name_under, named_under
from arco.ledger.claim import Answer, Claim
from arco.ledger.idempotency import ClaimHold, ClaimTerms


class DescribeWork:
    """A change of what is said of a view, as work that takes effect once."""

    def __init__(self, desk: Desk, request: UpdateTable, caller: Caller) -> None:
        target = request.target
        self._desk = desk
        self._name = Name(target.catalog, target.schema, target.table)
        self._request = request
        self._caller = caller

    async def terms(self) -> ClaimTerms:
        base = await base_number(self._desk)
        found = await look_up(self._desk, self._name, ObjectKind.VIEW)
        ids = {
            "table": "" if found is None else found.id,
            "object": str(new_object_id(self._desk.runtime)),
        }
        return ClaimTerms(ids=ids, base=base)

    def renew(self, claim: Claim) -> dict[str, str]:
        return claim.ids

    async def find(self, claim: Claim) -> Answer | None:
        done = await named_under(self._desk, claim)
        return None if done is None else succeeded(Told(table_id=claim.ids["table"]))

    async def perform(self, claim: Claim, hold: ClaimHold) -> Answer:
        if not claim.ids["table"]:
            return refused(absent(ObjectKind.VIEW, self._name))
        try:
            await name_under(self._desk, claim, hold, self._request, self._caller.actor)
        except Verdict as verdict:
            return refused(in_own_words(verdict.problem))
        return succeeded(Told(table_id=claim.ids["table"]))
