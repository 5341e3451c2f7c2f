"""Views: the operations that Iceberg's clients request. Like tables, each has its own pointer chain."""

from arco.catalog.model import ObjectKind
from arco.catalog.name import check_name
from arco.catalog.pending_request import Caller
from arco.core.errors import Invalid, InvalidView
from arco.core.ids import new_object_id
from arco.iceberg.commit import VIEW_ENGINE, CommitWork
from arco.iceberg.context import IcebergContext
from arco.iceberg.create import (
    CreateWork,
    Creation,
    InitialMetadata,
    build_once,
    check_new_metadata,
)
from arco.iceberg.drop import DropWork
from arco.iceberg.engine.view_metadata import new_view
from arco.iceberg.idempotency import run_once
from arco.iceberg.loaded_metadata import LoadedMetadata
from arco.iceberg.name_resolution import FullName, check_namespace, resolve_name
from arco.iceberg.pointer import PointerOperation
from arco.iceberg.register import RegisterWork
from arco.iceberg.tables import list_names, load_metadata, load_result, rename_object
from arco.iceberg.wire import (
    CommitViewRequest,
    CreateViewRequest,
    RegisterViewRequest,
    RenameRequest,
)

KIND = ObjectKind.VIEW


class Views:
    """Operations on views."""

    def __init__(self, context: IcebergContext) -> None:
        self._context = context

    async def page(
        self, catalog: str, namespace: tuple[str, ...], *, after: str | None, limit: int | None
    ) -> list[str]:
        """The names of the views in a namespace, in order."""
        return await list_names(self._context, catalog, namespace, KIND, after=after, limit=limit)

    async def create(
        self, catalog: str, namespace: tuple[str, ...], request: CreateViewRequest, caller: Caller
    ) -> LoadedMetadata:
        """Create a view."""
        context = self._context
        name = FullName(catalog, check_namespace(namespace), check_name(request.name, "view"))

        def build(view_id: str) -> InitialMetadata:
            location = (request.location or "").rstrip("/") or context.locations.managed(view_id)
            now_ms = context.runtime.clock.now_ms()
            try:
                metadata = new_view(request, view_uuid=view_id, location=location, now_ms=now_ms)
            except Invalid as problem:  # clients recognise an invalid view by its type
                raise InvalidView(str(problem)) from problem
            check_new_metadata(context, metadata, view_id)
            return InitialMetadata(metadata)

        make = build_once(build)
        make(str(new_object_id(context.runtime)))
        work = CreateWork(context, Creation(name, KIND, caller, PointerOperation.CREATE, make))
        return await load_result(context, await run_once(context, caller, work, [name, request]))

    async def load(self, catalog: str, namespace: tuple[str, ...], name: str) -> LoadedMetadata:
        """A view's metadata."""
        return await load_metadata(self._context, FullName(catalog, tuple(namespace), name), KIND)

    async def exists(self, catalog: str, namespace: tuple[str, ...], name: str) -> None:
        """Return if the view exists, else raise."""
        await resolve_name(self._context, FullName(catalog, tuple(namespace), name), KIND)

    async def replace(
        self,
        catalog: str,
        namespace: tuple[str, ...],
        name: str,
        request: CommitViewRequest,
        caller: Caller,
    ) -> LoadedMetadata:
        """Change a view."""
        full_name = FullName(catalog, tuple(namespace), name)
        work = CommitWork(self._context, full_name, request, caller, VIEW_ENGINE)
        result = await run_once(self._context, caller, work, [full_name, request])
        return await load_result(self._context, result)

    async def drop(
        self, catalog: str, namespace: tuple[str, ...], name: str, caller: Caller
    ) -> None:
        """Drop a view."""
        full_name = FullName(catalog, tuple(namespace), name)
        await run_once(
            self._context, caller, DropWork(self._context, full_name, KIND, caller), [full_name]
        )

    async def register(
        self, catalog: str, namespace: tuple[str, ...], request: RegisterViewRequest, caller: Caller
    ) -> LoadedMetadata:
        """Register an existing metadata file of a view under a name."""
        context = self._context
        name = FullName(catalog, check_namespace(namespace), check_name(request.name, "view"))
        work = RegisterWork(context, name, KIND, caller, request.metadata_location)
        return await load_result(context, await run_once(context, caller, work, [name, request]))

    async def rename(self, catalog: str, request: RenameRequest, caller: Caller) -> None:
        """Rename a view."""
        await rename_object(self._context, catalog, request, KIND, caller)
