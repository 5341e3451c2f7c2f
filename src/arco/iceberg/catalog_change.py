"""Changes of names, carried out by the catalog under the claim of an Iceberg request.

The catalog's manifests are the evidence: each lists the requests that it carries out, so a claim can be
looked for there whoever has landed it (P10, P11).
"""
# DOC rename: """Renaming: the catalog alone decides, since chains and places go by id (P31, law 11)."""
# DOC describe: """Describing a view: the catalog alone decides, but only of what is there as a view (P31)."""

from arco.catalog.ask import Ask
from arco.catalog.ddl import Ddl, MoveTable, UpdateTable
from arco.catalog.done import Done
from arco.catalog.manifest import read_manifest
from arco.catalog.model import ObjectKind
from arco.catalog.recall import recall
from arco.core.errors import AlreadyExists, ArcoError, NotFound
from arco.core.ids import new_object_id
from arco.iceberg.context import Caller, Desk
from arco.iceberg.errors import Refused, dotted, exists, in_own_words, no_such_namespace
from arco.iceberg.idempotency import Told, refused, succeeded
from arco.iceberg.name_resolution import Name, absent, look_up, occupant
from arco.ledger.claim import Answer, Claim
from arco.ledger.evidence import look
from arco.ledger.idempotency import Hold, Terms
from arco.storage.link import Entry


class Verdict(Exception):
    """The catalog has refused a request for good; what it rests on is the newest manifest."""

    def __init__(self, problem: ArcoError) -> None:
        super().__init__(str(problem))
        self.problem = problem


async def base_number(desk: Desk) -> int:
    """A manifest's number that is known to exist, for a claim."""
    known = desk.reader.chain.remembered()
    return (await desk.reader.head()).number if known is None else known.number


async def name_under(desk: Desk, claim: Claim, hold: Hold, request: Ddl, actor: str) -> Done:
    """Have the catalog carry a request out; `Verdict` if it refuses."""
    ask = Ask(
        request=request,
        actor=actor,
        request_id=claim.request_id,
        new_id=claim.ids["object"],
        asked_ms=desk.runtime.clock.elapsed_ms(),
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


async def named_under(desk: Desk, claim: Claim) -> Done | None:
    """What a claim's request has come to, if it was carried out."""
    seen = await look(desk.reader.chain, claim, _requests)
    if seen.mine is None:
        return None
    return await recall(desk.reader, claim.request_id, seen.mine.number)


def _requests(entry: Entry) -> list[str]:
    return list(read_manifest(entry).requests)


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

    async def terms(self) -> Terms:
        base = await base_number(self._desk)
        found = await look_up(self._desk, self._source, self._kind)
        ids = {
            "table": "" if found is None else found.id,
            "object": str(new_object_id(self._desk.runtime)),
        }
        return Terms(ids=ids, base=base)

    def renew(self, claim: Claim) -> dict[str, str]:
        return claim.ids

    async def find(self, claim: Claim) -> Answer | None:
        done = await named_under(self._desk, claim)
        return None if done is None else succeeded(Told(table_id=claim.ids["table"]))

    async def perform(self, claim: Claim, hold: Hold) -> Answer:
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


class DescribeWork:
    """A change of what is said of a view, as work that takes effect once."""

    def __init__(self, desk: Desk, request: UpdateTable, caller: Caller) -> None:
        target = request.target
        self._desk = desk
        self._name = Name(target.catalog, target.schema, target.table)
        self._request = request
        self._caller = caller

    async def terms(self) -> Terms:
        base = await base_number(self._desk)
        found = await look_up(self._desk, self._name, ObjectKind.VIEW)
        ids = {
            "table": "" if found is None else found.id,
            "object": str(new_object_id(self._desk.runtime)),
        }
        return Terms(ids=ids, base=base)

    def renew(self, claim: Claim) -> dict[str, str]:
        return claim.ids

    async def find(self, claim: Claim) -> Answer | None:
        done = await named_under(self._desk, claim)
        return None if done is None else succeeded(Told(table_id=claim.ids["table"]))

    async def perform(self, claim: Claim, hold: Hold) -> Answer:
        if not claim.ids["table"]:
            return refused(absent(ObjectKind.VIEW, self._name))
        try:
            await name_under(self._desk, claim, hold, self._request, self._caller.actor)
        except Verdict as verdict:
            return refused(in_own_words(verdict.problem))
        return succeeded(Told(table_id=claim.ids["table"]))
