"""Work under idempotency keys for tests: it appends one entry to a chain, as any API would (P11)."""

from dataclasses import dataclass, field

import msgspec

from arco.core import json
from arco.core.errors import Conflict
from arco.core.scope import Scope
from arco.ledger.claim import Answer, Claim, find_evidence, key_path
from arco.ledger.idempotency import ClaimHold, ClaimTerms
from arco.storage.chain import Chain
from arco.storage.entry import Entry
from tests.ledger.simulated import Calm
from tests.stores import Bench

PATH = key_path(Scope(), principal="user:a", api="native", operation="create", key="k1")


class Step(msgspec.Struct, frozen=True):
    request_id: str
    table: str


@dataclass
class Create:
    """Work that appends one entry; a flag makes it stop half-way, as a crash would."""

    chain: Chain
    table: str = "table"
    refuse: bool = False
    dies_before_create: bool = False
    dies_after_create: bool = False
    before_create: list[ClaimHold] = field(default_factory=list)

    async def terms(self) -> ClaimTerms:
        return ClaimTerms(ids={"table": self.table}, base=(await self.chain.head()).number)

    def renew(self, claim: Claim) -> dict[str, str]:
        return claim.ids

    async def find(self, claim: Claim) -> Answer | None:
        evidence = (await find_evidence(self.chain, claim, request_ids)).landed
        return None if evidence is None else answer(claim)

    async def perform(self, claim: Claim, hold: ClaimHold) -> Answer:
        evidence = await find_evidence(self.chain, claim, request_ids)
        if evidence.landed is not None:
            return answer(claim)
        if self.refuse:
            return Answer(status=409)
        await hold.check()
        self.before_create.append(hold)
        if self.dies_before_create:
            raise KeyboardInterrupt
        try:
            await self.chain.append(evidence.head, Step(claim.request_id, claim.ids["table"]))
        except Conflict:
            return await self.perform(claim, hold)
        if self.dies_after_create:
            raise KeyboardInterrupt
        return answer(claim)


def request_ids(entry: Entry) -> list[str]:
    return [entry.body(Step).request_id]


def answer(claim: Claim) -> Answer:
    return Answer(status=201, body=msgspec.Raw(json.encode(claim.ids)))


def target(store_of: Bench | Calm) -> Chain:
    return Chain(store_of.store(), "_catalog/iceberg_pointers/t")


async def created_tables(chain: Chain) -> list[str]:
    head = await chain.head()
    return [entry.body(Step).table for entry in await chain.history(0, head.number)]
