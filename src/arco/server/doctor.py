"""The checks of `arco doctor`: this machine, the store behind an address, and a workspace in it."""

import os
import platform
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from stat import S_ISDIR

from arco.compactor.domains import DOMAINS
from arco.compactor.inspection import Inspection, inspect_domain
from arco.core.errors import ArcoError, Denied, Invalid
from arco.core.java import OLDEST_JAVA, NoJava, find_java
from arco.core.runtime import Runtime
from arco.iceberg.files import TableFiles
from arco.iceberg.location import Locations
from arco.iceberg.pointer_check import PointerCheck, PointerReport
from arco.server.finding import DoctorFinding, FindingStatus, error_finding, failed, ok
from arco.server.locations import AllowedLocations
from arco.server.store_check import StoreCheck
from arco.server.workspace_address import WorkspaceAddress
from arco.storage.address import Address
from arco.storage.mounts import require_local
from arco.storage.roles import Role
from arco.storage.store import Store

# Shows the progress of a long check: what is checked, then how much of it.
ShowProgress = Callable[[str], AbstractContextManager[Callable[[int, int], None] | None]]

POINTER_NEXT_STEP = (
    "Serve the store at the URL that it was written at, and pass every --allow-location that its "
    "servers have. A file that is missing there: restore it from a backup."
)

_OLDEST_PYTHON = (3, 11)
_SPARK_NEEDS_JAVA = (
    f"Spark needs Java {OLDEST_JAVA} or newer: install it before arco-lakehouse[spark]."
)
_LOST_AT_RESTART = "This is memory: what is stored here is gone after a restart."
_IN_MEMORY = ("tmpfs", "ramfs")
_UNUSABLE = "the store's directory cannot be used"
_NO_ACCOUNT = failed(
    "opens",
    "the client could not be set up: the URL does not name the storage account",
    "Add ?account=NAME to it, or set AZURE_STORAGE_ACCOUNT_NAME.",
)
_ICEBERG_TABLES = "iceberg tables"


async def check_store(
    workspace: WorkspaceAddress, runtime: Runtime
) -> AsyncIterator[DoctorFinding]:
    """Check this machine and a store; the last finding is that the store cannot be opened, if so."""
    yield check_python()
    yield check_java()
    address = workspace.address()
    is_local = address.scheme == "file"
    try:
        if is_local:
            yield check_file_system(Path(address.location))
        elif address.scheme == "memory":
            yield DoctorFinding("memory", FindingStatus.NOTE, "of this process", _LOST_AT_RESTART)
        backend = workspace.backend(runtime, create=is_local and _is_prepared(address))
    except ArcoError as problem:
        lacks_account = address.scheme == "az" and "account" not in address.options
        if lacks_account and isinstance(problem, Invalid):
            yield _NO_ACCOUNT
        else:
            yield error_finding("opens", problem, is_local=is_local)
        return
    async for finding in StoreCheck(
        backend, runtime, workspace.scope(), workspace.describe()
    ).findings():
        yield finding


async def check_workspace(
    address: WorkspaceAddress,
    locations: AllowedLocations,
    runtime: Runtime,
    show_progress: ShowProgress,
) -> AsyncIterator[DoctorFinding]:
    """Inspect every domain of a workspace, and resolve the pointers of its Iceberg tables."""
    is_local = address.address().scheme == "file"
    store = Store(address.backend(runtime), runtime, role=Role.JANITOR, scope=address.scope())
    for domain in DOMAINS:
        try:
            with show_progress(f"looking at {domain}") as progress:
                inspection = await inspect_domain(store, domain, progress=progress)
        except ArcoError as problem:
            yield error_finding(domain, problem, is_local=is_local)
            continue
        for finding in inspection_findings(inspection):
            yield finding
    try:
        pointers = await resolve_pointers(address, store, locations, show_progress)
    except ArcoError as problem:
        yield error_finding(_ICEBERG_TABLES, problem, is_local=is_local)
        return
    for finding in _pointer_findings(pointers):
        yield finding


async def resolve_pointers(
    address: WorkspaceAddress,
    store: Store,
    locations: AllowedLocations,
    show_progress: ShowProgress,
) -> PointerReport:
    """Check that the metadata file of every Iceberg table exists; reads only."""
    root = address.location_root()
    outside = locations.open(store.runtime, role=Role.JANITOR, fsync=not address.no_fsync)
    files = TableFiles(store, root, outside)
    check = PointerCheck(store, files, Locations(root, locations.urls()))
    with show_progress("resolving Iceberg tables") as progress:
        return await check.run(progress)


def check_python() -> DoctorFinding:
    """The version of the interpreter."""
    version = platform.python_version()
    if sys.version_info < _OLDEST_PYTHON:
        required = ".".join(map(str, _OLDEST_PYTHON))
        return failed("python", version, f"Install Python {required} or newer.")
    return ok("python", version)


def check_java() -> DoctorFinding:
    """The Java that Spark would start; only Spark needs it, so its absence is a note."""
    java = find_java()
    if isinstance(java, NoJava):
        figure = f"not found: {java.reason}"
        return DoctorFinding("java", FindingStatus.NOTE, figure, _SPARK_NEEDS_JAVA)
    figure = f"Java {java.version}"
    if java.version < OLDEST_JAVA:
        return DoctorFinding("java", FindingStatus.NOTE, figure, _SPARK_NEEDS_JAVA)
    return ok("java", figure, version=java.version)


def _is_prepared(address: Address) -> bool:
    """Whether a new store may be meant: a directory that does not exist is misspelt."""
    return Path(address.location).is_dir()


def check_file_system(directory: Path) -> DoctorFinding:
    """The file system of a directory, or of the parent it is going to be created in.

    `Unsupported` if that is a network file system.
    """
    try:
        existing = next(each for each in (directory, *directory.parents) if _is_directory(each))
        kind = require_local(existing)
    except OSError as problem:
        message = f"{_UNUSABLE}: {os.strerror(problem.errno or 0).lower()}"
        raise (Denied if isinstance(problem, PermissionError) else Invalid)(message) from problem
    if kind in _IN_MEMORY:
        return DoctorFinding("file system", FindingStatus.NOTE, kind, _LOST_AT_RESTART)
    return ok("file system", kind)


def _is_directory(path: Path) -> bool:
    """Whether a directory exists; `Invalid` if the path is something else."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        if path.is_symlink():
            raise Invalid(f"{_UNUSABLE}: {str(path)!r} is a link to nowhere") from None
        return False
    except NotADirectoryError:
        return False  # a parent is a file, and is checked next
    if not S_ISDIR(mode):
        raise Invalid(f"{_UNUSABLE}: {str(path)!r} is not a directory")
    return True


def inspection_findings(inspection: Inspection) -> Iterator[DoctorFinding]:
    """The findings of one domain's inspection."""
    domain, orphans = inspection.domain, inspection.orphans
    yield ok(
        domain,
        _inspection_figure(inspection),
        head=inspection.head,
        segments=inspection.segments,
        open_streams=inspection.streams,
        waiting_segments=inspection.waiting,
        waiting_bytes=inspection.waiting_bytes,
        lag_ms=inspection.lag_ms or 0,
        files=inspection.files,
        orphan_files=orphans.objects,
        orphan_bytes=orphans.bytes,
        troubles=len(inspection.troubles),
    )

    def note(figure: str, next_step: str = "") -> DoctorFinding:
        return DoctorFinding(domain, FindingStatus.NOTE, figure, next_step)

    if orphans.objects:
        figure = f"{orphans.objects} files that no manifest names, {orphans.bytes:,} bytes"
        yield note(figure, "`arco gc` deletes them.")
    if inspection.sealed:
        yield note(f"{len(inspection.sealed)} streams past their end sealed")
    for hint in inspection.hints:
        yield note(f"{hint} rewritten: it was far behind or lost")
    for problem in inspection.troubles:
        yield failed(domain, f"{problem.path}: {problem.explanation}", problem.next_step)


def _inspection_figure(inspection: Inspection) -> str:
    if inspection.head < 0 and not inspection.segments:
        return "nothing yet"
    figures = [
        f"version {inspection.head}" if inspection.head >= 0 else "nothing published",
        f"{inspection.files} files",
        f"{inspection.segments} segments",
        f"{inspection.streams} open streams",
    ]
    if inspection.waiting:
        lag_ms = inspection.lag_ms or 0
        lag = f"{lag_ms / 1000:.0f} s" if lag_ms < 120_000 else f"{lag_ms / 60_000:.0f} min"
        figures.append(f"{inspection.waiting} segments wait since {lag}")
    return ", ".join(figures)


def _pointer_findings(pointers: PointerReport) -> Iterator[DoctorFinding]:
    if pointers.ok:
        yield ok(_ICEBERG_TABLES, f"{pointers.tables} tables, every metadata file is there")
        return
    for each in pointers.problems:
        figure = f"table {each.table}: {each.path} {each.explanation}"
        yield failed(_ICEBERG_TABLES, figure, POINTER_NEXT_STEP)
    if more := pointers.failed - len(pointers.problems):
        yield failed(_ICEBERG_TABLES, f"{more} tables more cannot be read", POINTER_NEXT_STEP)
