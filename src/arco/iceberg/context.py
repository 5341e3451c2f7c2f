"""The desk: what every operation on Iceberg tables works with."""
# DOC rows: """Rows by name: each is looked up once for as long as the catalog stays as it is.
#
# A snapshot never changes, so what was found in it, or not found, stays true of it.
# """

from contextlib import suppress
from dataclasses import dataclass, field

from arco.catalog.commit import Committer
from arco.catalog.ddl import TableName
from arco.catalog.model import TableRow
from arco.catalog.published import Published
from arco.catalog.reader import SnapshotReader
from arco.catalog.snapshot import Snapshot
from arco.core.errors import ArcoError, Denied, NotFound
from arco.core.lanes import Lanes
from arco.core.runtime import Runtime
from arco.core.tasks import Task
from arco.iceberg.after_commit import Aftermath
from arco.iceberg.engine.metadata import Metadata, unpacked
from arco.iceberg.errors import Refused, Unreadable
from arco.iceberg.files import TableFiles
from arco.iceberg.loaded_metadata import Loaded, Shelf
from arco.iceberg.location import Locations
from arco.iceberg.pointer import Pointers, pointer_of, publication_of
from arco.iceberg.pointer_head import Standings
from arco.iceberg.unresolved_names import Doubts
from arco.ledger.idempotency import Idempotency
from arco.storage.link import Entry
from arco.storage.store import Store

_MOST = 10_000


class Rows:
    """What was looked up in the newest snapshot that was asked about."""

    def __init__(self) -> None:
        self._snapshot: Snapshot | None = None
        self._found: dict[TableName, TableRow | None] = {}

    async def find(self, snapshot: Snapshot, name: TableName) -> TableRow | None:
        """The row of a name in a snapshot, if there is one."""
        if snapshot is not self._snapshot or len(self._found) >= _MOST:
            self._snapshot, self._found = snapshot, {}
        found = self._found
        if name in found:
            return found[name]
        try:
            row = (await snapshot.table(name)).row
        except NotFound:
            row = None
        found[name] = row
        return row


@dataclass(frozen=True)
class Caller:
    """Who asks, with which program, under which key."""

    actor: str
    engine: str | None
    key: str | None
    operation: str
    arrived_ms: float
    update_source: str = "iceberg_rest"


@dataclass(frozen=True, kw_only=True)
class Desk:
    """The parts that operations share."""

    store: Store
    reader: SnapshotReader
    committer: Committer
    idempotency: Idempotency
    files: TableFiles
    locations: Locations
    pointers: Pointers
    standings: Standings
    doubts: Doubts
    lanes: Lanes
    shelf: Shelf
    aftermath: Aftermath
    published: Published = field(default_factory=lambda: Published(publication_of))
    rows: Rows = field(default_factory=Rows)
    config: bytes = b"{}"
    _reading: dict[str, Task[Loaded]] = field(default_factory=dict)

    @property
    def runtime(self) -> Runtime:
        return self.store.runtime

    async def load(self, location: str) -> Loaded:
        """A metadata file: from memory, or one request, which all who want it meanwhile share."""
        found = self.shelf.get(location)
        if found is not None:
            return found
        reading = self._reading.get(location)
        if reading is None:
            reading = self._reading[location] = self.runtime.tasks.spawn(self._read(location))
        return await reading.wait()

    def foresee(self, entry: Entry) -> None:
        """Begin to read what a number names, while it is made sure that it is the last."""
        location = pointer_of(entry).metadata_location
        if self.shelf.get(location) is None:
            self.runtime.tasks.spawn(self._try(location))

    async def _try(self, location: str) -> None:
        with suppress(ArcoError, Refused):  # whoever needs it will meet the same
            await self.load(location)

    async def _read(self, location: str) -> Loaded:
        try:
            raw = unpacked(await self.files.read(location))
        except NotFound as missing:
            raise missing_file(location) from missing
        except Denied as closed:
            raise Unreadable(403, "ForbiddenException", f"{location}: {closed}") from closed
        finally:
            del self._reading[location]
        found = Loaded(location, raw, config=self.config)
        self.shelf.put(found)
        return found

    def keep(self, location: str, raw: bytes, metadata: Metadata) -> Loaded:
        """A metadata file that was just written."""
        loaded = Loaded(location, raw, config=self.config, metadata=metadata)
        self.shelf.put(loaded)
        return loaded


def missing_file(location: str) -> Unreadable:
    """The catalog names a metadata file that is not there."""
    return Unreadable(404, "NotFoundException", f"Failed to open input stream for file: {location}")
