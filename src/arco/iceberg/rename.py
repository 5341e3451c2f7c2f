"""Renaming: the catalog alone decides, since chains and places go by id (P31, law 11)."""

from arco.catalog.ddl import MoveTable
from arco.catalog.model import ObjectKind
from arco.core.errors import AlreadyExists, ArcoError, NotFound
from arco.core.ids import new_object_id
from arco.iceberg.desk import Caller, Desk
from arco.iceberg.keyed import Told, in_own_words, refused, succeeded
from arco.iceberg.names import Name, absent, look_up, occupant
from arco.iceberg.naming import Verdict, base_number, name_under, named_under
from arco.iceberg.refusal import Refused, dotted, exists, no_such_namespace
from arco.ledger.claim import Answer, Claim
from arco.ledger.idempotency import ClaimHold, ClaimTerms

_MOST_TRIES = 3


class RenameWork:
    """A rename as work that takes effect once."""

    def __init__(
        self, desk: Desk, source: Name, target: Name, kind: ObjectKind, caller: Caller
    ) -> None:
        self._desk = desk
        self._source = source
        self._target = target
        self._kind = kind
        self._caller = caller

    async def terms(self) -> ClaimTerms:
        base = await base_number(self._desk)
        found = await look_up(self._desk, self._source, self._kind)
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
        table_id, verdict = claim.ids["table"], None
        if not table_id:
            return refused(absent(self._kind, self._source))
        request = MoveTable(table_id=table_id, schema=self._target.schema, name=self._target.name)
        for _ in range(_MOST_TRIES):
            try:
                await name_under(self._desk, claim, hold, request, self._caller.actor)
            except Verdict as refusal:
                verdict = refusal.problem
            else:
                return succeeded(Told(table_id=table_id))
            if not isinstance(verdict, AlreadyExists) or await self._is_taken():
                break
        return refused(await self._words(verdict))

    async def _is_taken(self) -> bool:
        """Whether the target is taken; a dead name is released by asking."""
        return await occupant(self._desk, self._target) is not None

    async def _words(self, problem: ArcoError | None) -> Refused:
        if isinstance(problem, AlreadyExists):
            taken = await occupant(self._desk, self._target)
            label = "View" if taken is not None and taken.kind is ObjectKind.VIEW else "Table"
            source = dotted(self._source.namespace, self._source.name)
            target = dotted(self._target.namespace, self._target.name)
            return exists(f"Cannot rename {source} to {target}. {label} already exists")
        if isinstance(problem, NotFound):
            try:
                await (await self._desk.reader.head()).schema(self._target.schema)
            except NotFound:
                return no_such_namespace(self._target.namespace)
            return absent(self._kind, self._source)
        return in_own_words(problem) if problem is not None else absent(self._kind, self._source)
