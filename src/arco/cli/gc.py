"""`arco gc`: garbage collection, with the janitor's role."""

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from arco.cli.place import Place
from arco.cli.settings import Flag

if TYPE_CHECKING:
    from arco.catalog.port import CompactorPort
    from arco.compactor.gc import Collection
    from arco.core.runtime import Runtime
    from arco.storage.backend import Backend

_KINDS = ("manifests", "commits", "files", "keys", "segments", "slots", "leases")


def gc(
    *,
    place: Place | None = None,
    dry_run: Flag = False,
    days: Annotated[float, Parameter(metavar="N")] = 7,
    compactor: Annotated[str | None, Parameter(metavar="URL", env_var="ARCO_COMPACTOR_URL")] = None,
    json: Flag = False,
) -> None:
    """Delete what is older than the retention and what nobody names any more.

    Parameters
    ----------
    place
        Where the metadata are.
    dry_run
        Delete nothing, and say what would go.
    days
        The retention: how long old versions, and what they name, are kept.
    compactor
        The compactor that publishes the mark below which unnamed files go. Without one it is published
        here, where this identity may; where it may not, those files stay.
    json
        Print one JSON document.
    """
    from arco.cli.output import print_document
    from arco.core.tasks import run

    collection = run(
        _collect(
            place or Place(),
            compactor,
            retention_ms=round(days * 86_400_000),
            dry_run=dry_run,
            quiet=json,
        )
    )
    if json:
        print_document(collection)
    else:
        _tell(collection)


async def _collect(
    place: Place, compactor_url: str | None, *, retention_ms: int, dry_run: bool, quiet: bool
) -> "Collection":
    from arco.cli.progress import progress_bar
    from arco.compactor.gc import collect_garbage
    from arco.core.runtime import system_runtime
    from arco.storage.open import open_store
    from arco.storage.roles import Role

    runtime = system_runtime()
    backend = place.backend(runtime)
    store = await open_store(backend, runtime, role=Role.JANITOR, scope=place.scope())
    compactor = await _compactor(place, compactor_url, backend, runtime)
    with progress_bar("collecting", quiet=quiet) as progress:
        return await collect_garbage(
            store, compactor, retention_ms=retention_ms, dry_run=dry_run, progress=progress
        )


async def _compactor(
    place: Place, url: str | None, backend: "Backend", runtime: "Runtime"
) -> "CompactorPort | None":
    """The compactor at a URL, or one in this process if its identity may publish."""
    from arco.api.remote_compactor import RemoteCompactor
    from arco.cli.api import service_token
    from arco.compactor.compactor import Compactor
    from arco.core.errors import Denied
    from arco.storage.open import open_store
    from arco.storage.roles import Role

    if url is not None:
        return RemoteCompactor(url, service_token())
    try:
        # Opening proves that this identity can create; a janitor's own identity cannot.
        store = await open_store(backend, runtime, role=Role.COMPACTOR, scope=place.scope())
    except Denied:
        return None
    return Compactor(store)


def _tell(collection: "Collection") -> None:
    total = collection.total()
    verb = "Would delete" if collection.dry_run else "Deleted"
    print(f"{verb} {total.objects} objects, {total.bytes:,} bytes.")
    for kind in _KINDS:
        pile = getattr(collection, kind)
        if pile.objects:
            print(f"  {kind:<10} {pile.objects:>8} objects {pile.bytes:>14,} bytes")
    if collection.left.objects:
        print(
            f"{collection.left.objects} files that nobody names stay: give --compactor URL, so that "
            "their mark can be published."
        )
