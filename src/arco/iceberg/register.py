"""Registering metadata that are there already: a new table, or the next version of one that is there (P30).

Which of the two it is, is fixed by the claim: a retry must not find the table that its first try has made,
and take it for one to overwrite.
"""

from arco.iceberg.create import CreateWork
from arco.iceberg.overwrite import OverwriteWork
from arco.ledger.claim import Answer, Claim
from arco.ledger.idempotency import Hold, Terms


class RegisterWork:
    """A registration that may overwrite, as work that takes effect once."""

    def __init__(self, create: CreateWork, overwrite: OverwriteWork) -> None:
        self._create = create
        self._overwrite = overwrite

    async def terms(self) -> Terms:
        terms = await self._overwrite.terms()
        return terms if terms.ids["table"] else await self._create.terms()

    def renew(self, claim: Claim) -> dict[str, str]:
        return claim.ids

    async def find(self, claim: Claim) -> Answer | None:
        return await self._work(claim).find(claim)

    async def perform(self, claim: Claim, hold: Hold) -> Answer:
        return await self._work(claim).perform(claim, hold)

    def _work(self, claim: Claim) -> CreateWork | OverwriteWork:
        return self._overwrite if "table" in claim.ids else self._create
