"""Views: all that Iceberg's clients can ask about them. They live like tables, on chains of their own."""

from arco.catalog.model import ObjectKind
from arco.catalog.name import check_name
from arco.core.errors import Invalid
from arco.core.ids import new_object_id
from arco.iceberg.commit import VIEWS, CommitWork
from arco.iceberg.context import Caller, Desk
from arco.iceberg.create import Birth, CreateWork, Newborn, check_new, remembered
from arco.iceberg.drop import DropWork
from arco.iceberg.engine.view_metadata import new_view
from arco.iceberg.errors import Refused
from arco.iceberg.idempotency import run
from arco.iceberg.loaded_metadata import Loaded
from arco.iceberg.name_resolution import Name, check_namespace, resolve
from arco.iceberg.register import RegisterWork
from arco.iceberg.tables import answer, load, names_in, rename
from arco.iceberg.wire import (
    CommitViewRequest,
    CreateViewRequest,
    RegisterViewRequest,
    RenameRequest,
)

KIND = ObjectKind.VIEW


class Views:
    """The views of a workspace."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def page(
        self, catalog: str, namespace: tuple[str, ...], *, after: str | None, limit: int | None
    ) -> list[str]:
        """The names of the views in a namespace, in order."""
        return await names_in(self._desk, catalog, namespace, KIND, after=after, limit=limit)

    async def create(
        self, catalog: str, namespace: tuple[str, ...], request: CreateViewRequest, caller: Caller
    ) -> Loaded:
        """Make a view."""
        desk = self._desk
        name = Name(catalog, check_namespace(namespace), check_name(request.name, "view"))

        def build(view_id: str) -> Newborn:
            location = (request.location or "").rstrip("/") or desk.locations.managed(view_id)
            now_ms = desk.runtime.clock.now_ms()
            try:
                metadata = new_view(request, view_uuid=view_id, location=location, now_ms=now_ms)
            except (
                Invalid
            ) as problem:  # clients tell a wrong view from a wrong request by this type
                raise Refused(400, "IllegalArgumentException", str(problem)) from problem
            check_new(desk, metadata, view_id)
            return Newborn(metadata)

        make = remembered(build)
        make(str(new_object_id(desk.runtime)))
        work = CreateWork(desk, Birth(name, KIND, caller, "create", make))
        return await answer(desk, await run(desk, caller, work, [name, request]))

    async def load(self, catalog: str, namespace: tuple[str, ...], name: str) -> Loaded:
        """A view's metadata."""
        return await load(self._desk, Name(catalog, tuple(namespace), name), KIND)

    async def exists(self, catalog: str, namespace: tuple[str, ...], name: str) -> None:
        """Nothing, if there is such a view."""
        await resolve(self._desk, Name(catalog, tuple(namespace), name), KIND)

    async def replace(
        self,
        catalog: str,
        namespace: tuple[str, ...],
        name: str,
        request: CommitViewRequest,
        caller: Caller,
    ) -> Loaded:
        """Change a view."""
        whole = Name(catalog, tuple(namespace), name)
        work = CommitWork(self._desk, whole, request, caller, VIEWS)
        told = await run(self._desk, caller, work, [whole, request])
        return await answer(self._desk, told)

    async def drop(
        self, catalog: str, namespace: tuple[str, ...], name: str, caller: Caller
    ) -> None:
        """Drop a view."""
        whole = Name(catalog, tuple(namespace), name)
        await run(self._desk, caller, DropWork(self._desk, whole, KIND, caller), [whole])

    async def register(
        self, catalog: str, namespace: tuple[str, ...], request: RegisterViewRequest, caller: Caller
    ) -> Loaded:
        """Give a name to a view's metadata that are there already."""
        desk = self._desk
        name = Name(catalog, check_namespace(namespace), check_name(request.name, "view"))
        work = RegisterWork(desk, name, KIND, caller, request.metadata_location)
        return await answer(desk, await run(desk, caller, work, [name, request]))

    async def rename(self, catalog: str, request: RenameRequest, caller: Caller) -> None:
        """Give a view another name."""
        await rename(self._desk, catalog, request, KIND, caller)
