"""Namespaces: the schemas of a catalog as Iceberg's clients see them.

The comment of a schema is the property `comment`. Creating a namespace also creates its missing
parents, as clients expect; each is its own change, and an existing one is fine.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from msgspec import UNSET

from arco.catalog.change import ClaimId, change
from arco.catalog.ddl import CreateSchema, DropSchema, SchemaName, UpdateSchema
from arco.catalog.model import SchemaRow
from arco.catalog.name import MAX_LEVELS, RESERVED, check_name
from arco.catalog.pending_request import Caller
from arco.catalog.snapshot import Snapshot
from arco.core import json
from arco.core.errors import (
    AlreadyExists,
    ArcoError,
    ContradictoryUpdate,
    Invalid,
    NoSuchSchema,
    NotEmpty,
    NotFound,
)
from arco.core.ids import new_object_id
from arco.iceberg.catalog_change import (
    CatalogRefusal,
    change_catalog,
    find_catalog_change,
    manifest_number,
)
from arco.iceberg.context import IcebergContext
from arco.iceberg.errors import (
    already_exists,
    dotted,
    no_such_namespace,
)
from arco.iceberg.idempotency import (
    FixedIdsWork,
    OperationResult,
    error_answer,
    run_once,
    success_answer,
)
from arco.iceberg.name_resolution import check_namespace, release_name
from arco.iceberg.wire import CreateNamespaceRequest, UpdatePropertiesRequest
from arco.ledger.claim import Answer, Claim
from arco.ledger.idempotency import ClaimHold, ClaimTerms

COMMENT = "comment"

Mend = tuple[type[ArcoError], Callable[[], Awaitable[None]]]


@dataclass(frozen=True)
class PropertiesUpdated:
    """The result of a property update."""

    updated: tuple[str, ...]
    removed: tuple[str, ...]
    missing: tuple[str, ...]


class Namespaces:
    """Operations on namespaces."""

    def __init__(self, context: IcebergContext) -> None:
        self._context = context

    async def page(
        self, catalog: str, parent: tuple[str, ...], *, after: str | None, limit: int | None
    ) -> list[str]:
        """The names right below a namespace, or at the top."""
        snapshot = await self._context.reader.head()
        parent_id = None
        if parent:
            parent_id = (await _schema(snapshot, catalog, check_namespace(parent))).schema_id
        catalog_id = (await snapshot.catalog(catalog)).row.catalog_id
        schemas = await snapshot.schemas(catalog_id, parent_id, after=after, limit=limit)
        return [each.row.name for each in schemas]

    async def create(
        self, catalog: str, request: CreateNamespaceRequest, caller: Caller
    ) -> dict[str, str]:
        """Create a namespace and its missing parents."""
        levels = request.namespace
        if not 0 < len(levels) <= MAX_LEVELS:
            raise Invalid(f"a namespace has 1 to {MAX_LEVELS} levels")
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

        work = _SchemaWork(self._context, ddl, caller, levels, repair=(NotFound, make_parents))
        await run_once(self._context, caller, work, [catalog, request])
        return dict(request.properties)

    async def load(self, catalog: str, namespace: tuple[str, ...]) -> dict[str, str]:
        """The properties of a namespace."""
        snapshot = await self._context.reader.head()
        return _properties(await _schema(snapshot, catalog, check_namespace(namespace)))

    async def drop(self, catalog: str, namespace: tuple[str, ...], caller: Caller) -> None:
        """Drop an empty namespace."""
        levels = check_namespace(namespace)
        ddl = DropSchema(target=SchemaName(catalog, levels))

        async def release_names() -> None:
            await self.release_names(catalog, levels)

        work = _SchemaWork(self._context, ddl, caller, levels, repair=(NotEmpty, release_names))
        await run_once(self._context, caller, work, [catalog, levels])

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
            raise ContradictoryUpdate(
                f"Invalid namespace update, cannot also set and remove properties: {sorted(both)}"
            )
        check_reserved([*request.updates, *request.removals])
        ddl = _amendment(SchemaName(catalog, levels), request)
        work = _PropertiesWork(self._context, ddl, caller, levels, request)
        answer = await run_once(self._context, caller, work, [catalog, levels, request])
        return PropertiesUpdated(**(answer.properties or {}))

    async def _make_parents(self, catalog: str, levels: tuple[str, ...], caller: Caller) -> None:
        snapshot = await self._context.reader.head()
        for depth in range(1, len(levels)):
            try:
                await _schema(snapshot, catalog, levels[:depth])
            except NoSuchSchema:
                ddl = CreateSchema(
                    catalog=catalog, parent=levels[: depth - 1], name=levels[depth - 1]
                )
                try:
                    await change(self._context.committer, ddl, caller.actor)
                except AlreadyExists:
                    continue

    async def release_names(self, catalog: str, levels: tuple[str, ...]) -> None:
        """Release the names of dropped tables, so that they do not keep a namespace alive (P31)."""
        context = self._context
        unresolved = await context.unresolved_names.open()
        if not unresolved:
            return
        row = await _schema(await context.reader.head(), catalog, levels)
        for table_id in sorted(unresolved):
            try:
                table = await (await context.reader.head()).find(table_id)
            except NotFound:
                continue
            if getattr(table.row, "schema_id", None) != row.schema_id:
                continue
            table_head = await context.heads.settle(await context.heads.of(table_id))
            if not table_head.is_live:
                await release_name(context, table_id, table_head)


class _SchemaWork(FixedIdsWork):
    """A change of one namespace as work that takes effect once.

    `repair` is an error and the repair after which the change is tried once more.
    """

    def __init__(
        self,
        context: IcebergContext,
        ddl: CreateSchema | UpdateSchema | DropSchema,
        caller: Caller,
        levels: tuple[str, ...],
        *,
        repair: Mend | None = None,
    ) -> None:
        self._context = context
        self._ddl = ddl
        self._caller = caller
        self._levels = levels
        self._mend = repair

    async def terms(self) -> ClaimTerms:
        ids = {"object": str(new_object_id(self._context.runtime))}
        return ClaimTerms(ids=ids, base=await manifest_number(self._context))

    async def find(self, claim: Claim) -> Answer | None:
        done = await find_catalog_change(self._context, claim)
        return None if done is None else success_answer(self.result(claim))

    async def perform(self, claim: Claim, hold: ClaimHold) -> Answer:
        try:
            await self._change(claim, hold)
        except CatalogRefusal as refusal:
            return error_answer(_refusal(self._levels, refusal.problem))
        return success_answer(self.result(claim))

    def result(self, claim: Claim) -> OperationResult:
        """What the success is remembered by."""
        del claim
        return OperationResult()

    async def _change(self, claim: Claim, hold: ClaimHold) -> None:
        try:
            await change_catalog(self._context, claim, hold, self._ddl, self._caller.actor)
        except CatalogRefusal as refusal:
            if self._mend is None or not isinstance(refusal.problem, self._mend[0]):
                raise
            await self._mend[1]()
            await change_catalog(self._context, claim, hold, self._ddl, self._caller.actor)


class _PropertiesWork(_SchemaWork):
    """A change of properties. The claim fixes which were removed, since they are gone afterwards."""

    def __init__(
        self,
        context: IcebergContext,
        ddl: UpdateSchema,
        caller: Caller,
        levels: tuple[str, ...],
        request: UpdatePropertiesRequest,
    ) -> None:
        super().__init__(context, ddl, caller, levels)
        self._request = request
        self._target = ddl.target

    async def terms(self) -> ClaimTerms:
        terms = await super().terms()
        try:
            schema = await (await self._context.reader.head()).schema(self._target)
            existing = set(_properties(schema.row))
        except NotFound:
            existing = set()
        removed_keys = [key for key in dict.fromkeys(self._request.removals) if key in existing]
        return ClaimTerms(
            ids=terms.ids | {ClaimId.REMOVED: json.encode(removed_keys).decode()}, base=terms.base
        )

    def result(self, claim: Claim) -> OperationResult:
        removed = tuple(json.decode(claim.ids[ClaimId.REMOVED].encode(), list))
        missing = (key for key in dict.fromkeys(self._request.removals) if key not in removed)
        updated = tuple(self._request.updates)
        return OperationResult(
            properties={"updated": updated, "removed": removed, "missing": tuple(missing)}
        )


def check_reserved(keys: list[str]) -> None:
    """`Invalid` if one of these properties is reserved for Arco, in any spelling."""
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


def _refusal(levels: tuple[str, ...], problem: ArcoError) -> ArcoError:
    """Why the namespace could not be changed, with the message for Iceberg's clients."""
    if isinstance(problem, AlreadyExists):
        return already_exists(f"Namespace already exists: {dotted(levels)}")
    if isinstance(problem, NotFound):
        return no_such_namespace(levels)
    if isinstance(problem, NotEmpty):
        return NotEmpty(f"Namespace {dotted(levels)} is not empty.")
    return problem
