"""Checks that every pointer resolves: the metadata file exists and is in a location that may be read.

A pointer holds the absolute location of a metadata file, and that file the location of its table. In a
store that was copied to another URL, or opened without its declared locations, they lead elsewhere. The
file must have the hash that the pointer names. A registered file, and one that an earlier version wrote,
has no hash: it must be JSON with the table's uuid.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from arco.catalog.model import TableFormat, TableRow
from arco.catalog.name import print_dotted
from arco.catalog.reader import SnapshotReader
from arco.catalog.snapshot import Snapshot, list_tables
from arco.core import json
from arco.core.errors import Corrupt, Denied, Invalid, NotFound
from arco.core.hashing import sha256_hex
from arco.iceberg.engine.metadata import Metadata, decompress
from arco.iceberg.files import TableFiles
from arco.iceberg.location import Locations
from arco.iceberg.pointer import Pointers
from arco.iceberg.pointer_head import PointerHead, PointerHeads
from arco.iceberg.transaction_record import TransactionRecords
from arco.storage.store import Store

MAX_PROBLEMS = 100  # that are listed; all are counted

_PARALLEL_READS = 8  # metadata files may be large, and this many are in memory

_UNREACHABLE = (
    "neither in the warehouse of this store nor in a location that --allow-location names"
)

Progress = Callable[[int, int], None]  # done, total so far


@dataclass(frozen=True)
class PointerProblem:
    """A table whose pointer does not resolve."""

    table: str
    table_id: str
    path: str
    explanation: str


@dataclass
class PointerReport:
    """How many pointers were checked, and which do not resolve."""

    tables: int = 0
    bytes: int = 0
    failed: int = 0
    problems: list[PointerProblem] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return self.failed == 0


class PointerCheck:
    """Resolves the pointers of all Iceberg tables and views that are not dropped."""

    def __init__(self, store: Store, files: TableFiles, locations: Locations) -> None:
        pointers, transactions = Pointers(store), TransactionRecords(store)
        self._tasks = store.runtime.tasks
        self._reader = SnapshotReader(store)
        self._files = files
        self._locations = locations
        self._pointers = pointers
        self._heads = PointerHeads(pointers, transactions, store.runtime)

    async def run(self, progress: Progress | None = None) -> PointerReport:
        """Check every table; `Unavailable` is raised if the store cannot be read."""
        report, snapshot = PointerReport(), await self._reader.head()
        some: list[TableRow] = []
        async for row in list_tables(snapshot, TableFormat.ICEBERG):
            some.append(row)
            if len(some) == _PARALLEL_READS:
                await self._check_some(some, snapshot, report, progress)
                some.clear()
        await self._check_some(some, snapshot, report, progress)
        return report

    async def _check_some(
        self,
        rows: Sequence[TableRow],
        snapshot: Snapshot,
        report: PointerReport,
        progress: Progress | None,
    ) -> None:
        problems = await self._tasks.gather(*(self._check(row, report) for row in rows))
        for row, problem in zip(rows, problems, strict=True):
            report.tables += 1
            if problem is None:
                continue
            report.failed += 1
            if len(report.problems) < MAX_PROBLEMS:
                name = print_dotted(await snapshot.levels(row))
                report.problems.append(PointerProblem(name, row.table_id, *problem))
        if progress is not None and rows:
            progress(report.tables, report.tables)

    async def _check(self, row: TableRow, report: PointerReport) -> tuple[str, str] | None:
        """The path that does not resolve, and why; None if the table is fine."""
        first = self._pointers.chain(row.table_id).key(0)
        try:
            table_head = await self._heads.of(row.table_id)
            if table_head.pointer is None:
                return first, "is missing: the catalog has the table, but no pointer"
            while True:
                try:
                    report.bytes += await self._resolve(table_head)
                    return None
                except _Unresolved as problem:
                    newer_head = await self._heads.of(row.table_id)
                    if newer_head.number == table_head.number:
                        return problem.path, problem.explanation
                    # A commit came in between and may have made that file obsolete.
                    table_head = newer_head
        except Corrupt as broken:
            return first, f"begins a chain that cannot be read: {broken}"

    async def _resolve(self, table_head: PointerHead) -> int:
        """The size of the metadata file in effect; `_Unresolved` if it is not what it should be."""
        location, pointer = table_head.location, table_head.pointer
        if location is None or pointer is None:
            return 0  # dropped, or being created
        raw = await self._read(location)
        if location == pointer.metadata_location and pointer.metadata_sha256 is not None:
            digest = sha256_hex(raw)
            if digest != pointer.metadata_sha256:
                fault = f"has the hash {digest}, and the pointer names {pointer.metadata_sha256}"
                raise _Unresolved(location, fault)
        metadata = _parse(location, raw)
        uuid = metadata.get("table-uuid") or metadata.get("view-uuid")
        if pointer.table_uuid is not None and str(uuid).lower() != pointer.table_uuid.lower():
            fault = f"holds the metadata of {uuid}, and the pointer names {pointer.table_uuid}"
            raise _Unresolved(location, fault)
        table_location = str(metadata.get("location"))
        if not self._is_reachable(table_location):
            raise _Unresolved(
                location,
                f"names {table_location} as the location of its table, which is {_UNREACHABLE}",
            )
        return len(raw)

    def _is_reachable(self, location: str) -> bool:
        try:
            self._locations.stored(location)
        except Invalid:
            return False
        return True

    async def _read(self, location: str) -> bytes:
        """The JSON of a metadata file, uncompressed."""
        if not self._is_reachable(location):
            raise _Unresolved(location, f"is {_UNREACHABLE}")
        try:
            return decompress(await self._files.read(location))
        except NotFound as missing:
            fault = "is missing: the newest pointer of the table names it"
            raise _Unresolved(location, fault) from missing
        except Denied as closed:
            raise _Unresolved(location, f"cannot be read: {closed}") from closed
        except Invalid as broken:
            raise _Unresolved(location, f"holds no metadata: {broken}") from broken


def _parse(location: str, raw: bytes) -> Metadata:
    try:
        return json.decode(raw, dict)
    except Invalid as broken:
        raise _Unresolved(location, f"holds no metadata: {broken}") from broken


class _Unresolved(Exception):
    """A path that does not resolve, and why."""

    def __init__(self, path: str, explanation: str) -> None:
        super().__init__(path, explanation)
        self.path = path
        self.explanation = explanation
