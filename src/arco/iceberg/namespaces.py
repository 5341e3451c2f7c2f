"""Namespaces: the schemas of a catalog, as Iceberg's clients see them.

A schema's comment is the property `comment` here. Missing parents are made on the way down, as clients
expect; each is a change of its own, and one that is there already is fine.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from msgspec import UNSET

from arco.catalog.change import change
from arco.catalog.ddl import CreateSchema, DropSchema, SchemaName, UpdateSchema
from arco.catalog.model import SchemaRow
from arco.catalog.name import MOST_LEVELS, RESERVED, check_name
from arco.catalog.snapshot import Snapshot
from arco.core import json
from arco.core.errors import AlreadyExists, ArcoError, Invalid, NotEmpty, NotFound
from arco.core.ids import new_object_id
from arco.iceberg.catalog_change import Verdict, base_number, name_under, named_under
from arco.iceberg.context import Caller, Desk
from arco.iceberg.errors import Refused, dotted, exists, in_own_words, no_such_namespace
from arco.iceberg.idempotency import Told, refused, run, succeeded
from arco.iceberg.name_resolution import check_namespace, release
from arco.iceberg.wire import CreateNamespaceRequest, UpdatePropertiesRequest
from arco.ledger.claim import Answer, Claim
from arco.ledger.idempotency import Hold, Terms

COMMENT = "comment"

Mend = tuple[type[ArcoError], Callable[[], Awaitable[None]]]


@dataclass(frozen=True)
class PropertiesUpdated:
    """What became of the properties that were to be set and removed."""

    updated: tuple[str, ...]
    removed: tuple[str, ...]
    missing: tuple[str, ...]


class Namespaces:
    """All that can be asked about namespaces."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def page(
        self, catalog: str, parent: tuple[str, ...], *, after: str | None, limit: int | None
    ) -> list[str]:
        """The names right below a namespace, or at the top."""
        snapshot = await self._desk.reader.head()
        parent_id = None
        if parent:
            parent_id = (await _schema(snapshot, catalog, check_namespace(parent))).schema_id
        catalog_id = (await snapshot.catalog(catalog)).row.catalog_id
        found = await snapshot.schemas(catalog_id, parent_id, after=after, limit=limit)
        return [each.row.name for each in found]

    async def create(
        self, catalog: str, request: CreateNamespaceRequest, caller: Caller
    ) -> dict[str, str]:
        """Make a namespace, and what is missing above it."""
        levels = request.namespace
        if not 0 < len(levels) <= MOST_LEVELS:
            raise Invalid(f"a namespace has 1 to {MOST_LEVELS} levels")
        for level in levels:
            check_name(level, "namespace")
        check_reserved([*request.properties])
        properties = dict(request.properties)
        ddl = CreateSchema(
            catalog=catalog,
            parent=levels[:-1],
            name=levels[-1],
            comment=properties.pop(COMMENT, None),
            properties=properties,
        )

        async def make_parents() -> None:
            await self._make_parents(catalog, levels, caller)

        work = _SchemaWork(self._desk, ddl, caller, levels, mend=(NotFound, make_parents))
        await run(self._desk, caller, work, [catalog, request])
        return dict(request.properties)

    async def load(self, catalog: str, namespace: tuple[str, ...]) -> dict[str, str]:
        """The properties of a namespace."""
        snapshot = await self._desk.reader.head()
        return _properties(await _schema(snapshot, catalog, check_namespace(namespace)))

    async def drop(self, catalog: str, namespace: tuple[str, ...], caller: Caller) -> None:
        """Drop a namespace that holds nothing."""
        levels = check_namespace(namespace)
        ddl = DropSchema(target=SchemaName(catalog, levels))

        async def release_dead() -> None:
            await self.release_dead(catalog, levels)

        work = _SchemaWork(self._desk, ddl, caller, levels, mend=(NotEmpty, release_dead))
        await run(self._desk, caller, work, [catalog, levels])

    async def update(
        self,
        catalog: str,
        namespace: tuple[str, ...],
        request: UpdatePropertiesRequest,
        caller: Caller,
    ) -> PropertiesUpdated:
        """Set and remove properties of a namespace."""
        levels = check_namespace(namespace)
        both = set(request.removals) & set(request.updates)
        if both:
            raise Refused(
                422,
                "UnprocessableEntityException",
                f"Invalid namespace update, cannot also set and remove properties: {sorted(both)}",
            )
        check_reserved([*request.updates, *request.removals])
        ddl = _amendment(SchemaName(catalog, levels), request)
        work = _PropertiesWork(self._desk, ddl, caller, levels, request)
        answer = await run(self._desk, caller, work, [catalog, levels, request])
        return PropertiesUpdated(**(answer.properties or {}))

    async def _make_parents(self, catalog: str, levels: tuple[str, ...], caller: Caller) -> None:
        snapshot = await self._desk.reader.head()
        for depth in range(1, len(levels)):
            try:
                await _schema(snapshot, catalog, levels[:depth])
            except Refused:
                ddl = CreateSchema(
                    catalog=catalog, parent=levels[: depth - 1], name=levels[depth - 1]
                )
                try:
                    await change(self._desk.committer, ddl, caller.actor)
                except AlreadyExists:
                    continue

    async def release_dead(self, catalog: str, levels: tuple[str, ...]) -> None:
        """Release names that only seem to be there, so that they keep no namespace alive (P31)."""
        desk = self._desk
        doubtful = await desk.doubts.open()
        if not doubtful:
            return
        row = await _schema(await desk.reader.head(), catalog, levels)
        for table_id in sorted(doubtful):
            try:
                found = await (await desk.reader.head()).find(table_id)
            except NotFound:
                continue
            if getattr(found.row, "schema_id", None) != row.schema_id:
                continue
            standing = await desk.standings.decided(await desk.standings.of(table_id))
            if not standing.is_live:
                await release(desk, table_id, standing)


class _SchemaWork:
    """A change of one namespace as work that takes effect once.

    `mend` says which refusal can be mended, and how: then it is tried once more.
    """

    def __init__(
        self,
        desk: Desk,
        ddl: CreateSchema | UpdateSchema | DropSchema,
        caller: Caller,
        levels: tuple[str, ...],
        *,
        mend: Mend | None = None,
    ) -> None:
        self._desk = desk
        self._ddl = ddl
        self._caller = caller
        self._levels = levels
        self._mend = mend

    async def terms(self) -> Terms:
        ids = {"object": str(new_object_id(self._desk.runtime))}
        return Terms(ids=ids, base=await base_number(self._desk))

    def renew(self, claim: Claim) -> dict[str, str]:
        return claim.ids

    async def find(self, claim: Claim) -> Answer | None:
        done = await named_under(self._desk, claim)
        return None if done is None else succeeded(self.told(claim))

    async def perform(self, claim: Claim, hold: Hold) -> Answer:
        try:
            await self._change(claim, hold)
        except Verdict as verdict:
            return refused(_words(self._levels, verdict.problem))
        return succeeded(self.told(claim))

    def told(self, claim: Claim) -> Told:
        """What the success is remembered by."""
        del claim
        return Told()

    async def _change(self, claim: Claim, hold: Hold) -> None:
        try:
            await name_under(self._desk, claim, hold, self._ddl, self._caller.actor)
        except Verdict as verdict:
            if self._mend is None or not isinstance(verdict.problem, self._mend[0]):
                raise
            await self._mend[1]()
            await name_under(self._desk, claim, hold, self._ddl, self._caller.actor)


class _PropertiesWork(_SchemaWork):
    """A change of properties. What was there before it is fixed by the claim, since it is gone after it."""

    def __init__(
        self,
        desk: Desk,
        ddl: UpdateSchema,
        caller: Caller,
        levels: tuple[str, ...],
        request: UpdatePropertiesRequest,
    ) -> None:
        super().__init__(desk, ddl, caller, levels)
        self._request = request
        self._target = ddl.target

    async def terms(self) -> Terms:
        terms = await super().terms()
        try:
            found = await (await self._desk.reader.head()).schema(self._target)
            there = set(_properties(found.row))
        except NotFound:
            there = set()
        gone = [key for key in dict.fromkeys(self._request.removals) if key in there]
        return Terms(ids=terms.ids | {"removed": json.encode(gone).decode()}, base=terms.base)

    def told(self, claim: Claim) -> Told:
        removed = tuple(json.decode(claim.ids["removed"].encode(), list))
        missing = (key for key in dict.fromkeys(self._request.removals) if key not in removed)
        updated = tuple(self._request.updates)
        return Told(properties={"updated": updated, "removed": removed, "missing": tuple(missing)})


def check_reserved(keys: list[str]) -> None:
    """`Invalid` if one of these properties is for Arco alone, however it is spelled."""
    for key in keys:
        if key.strip().casefold().startswith(RESERVED):
            raise Invalid(
                f"the property {key[:80]!r} is reserved: choose a key without {RESERVED!r}"
            )


def _amendment(target: SchemaName, request: UpdatePropertiesRequest) -> UpdateSchema:
    changes: dict[str, str | None] = dict.fromkeys(request.removals)
    changes |= request.updates
    comment = changes.pop(COMMENT) if COMMENT in changes else UNSET
    return UpdateSchema(target=target, comment=comment, properties=changes or UNSET)


def _properties(row: SchemaRow) -> dict[str, str]:
    comment = {} if row.comment is None else {COMMENT: row.comment}
    return {**row.properties, **comment}


async def _schema(snapshot: Snapshot, catalog: str, levels: tuple[str, ...]) -> SchemaRow:
    try:
        return (await snapshot.schema(SchemaName(catalog, levels))).row
    except NotFound as missing:
        raise no_such_namespace(levels) from missing


def _words(levels: tuple[str, ...], problem: ArcoError) -> Refused:
    if isinstance(problem, AlreadyExists):
        return exists(f"Namespace already exists: {dotted(levels)}")
    if isinstance(problem, NotFound):
        return no_such_namespace(levels)
    if isinstance(problem, NotEmpty):
        return Refused(
            409, "NamespaceNotEmptyException", f"Namespace {dotted(levels)} is not empty."
        )
    return in_own_words(problem)
