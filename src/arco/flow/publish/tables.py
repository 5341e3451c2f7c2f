"""Plain Parquet tables: publishing files that were staged, fencing partitions, and telling what is there.

An attempt writes its files below `data/{attempt_id}/` in the table's own folder, and there they stay: a
version names them, or nobody ever sees them. A lost race is no conflict: whoever loses looks at the new
version and goes on behind it, unless another attempt has published or fenced its partitions (P35).

Round trips one after the other, in a warm process: the table's row, the head, one for every 64 files that
are looked for, the head again, the version: 5; every 64th time one more.
"""

import msgspec

from arco.catalog.location import managed_location
from arco.catalog.model import TableFormat, TableRow
from arco.catalog.publication import Attempt, Numbered, Publication, published_by_task
from arco.catalog.published import Published
from arco.catalog.reader import SnapshotReader
from arco.core.errors import Conflict, Invalid, NotFound
from arco.core.lanes import Lanes
from arco.flow.publish.content import Content, after, totals_after
from arco.flow.publish.contents import Contents
from arco.flow.publish.pointer import (
    EVERY,
    Files,
    Mode,
    ParquetPointer,
    ParquetPointers,
    Totals,
    parquet_pointer_of,
    publication_of,
)
from arco.flow.publish.staged import check_staged, mode_of, refuse_missing
from arco.flow.publish.wire import FilesNow, FilesPublished, FilesStaged
from arco.storage.chain import Chain, Head
from arco.storage.collect import DEFAULT_RETENTION_MS
from arco.storage.store import Store


class ParquetTables:
    """The plain Parquet tables of a workspace, with the store as the role `flow` sees it."""

    def __init__(
        self,
        reader: SnapshotReader,
        store: Store,
        *,
        location_root: str = "",
        retention_ms: int = DEFAULT_RETENTION_MS,
    ) -> None:
        self._reader = reader
        self._store = store
        self._location_root = location_root
        self._pointers = ParquetPointers(store)
        self._contents = Contents(store)
        self._published = Published(publication_of, retention_ms=retention_ms)
        self._lanes = Lanes(store.runtime.tasks)

    async def publish(self, staged: FilesStaged) -> FilesPublished:
        """Make a version of staged files; saying it twice is saying it once.

        `AttemptFenced` if another attempt has published or fenced its partitions, `Unknown` if nobody can
        tell whether the version was made: then it is to be asked again.
        """
        attempt, mode = check_staged(staged), mode_of(staged)
        row = await self._table(staged.table_id)
        chain = self._pointers.chain(staged.table_id)
        # What is done or lost already is told before anything is looked for.
        own = await self._published.own(chain, attempt, await chain.head())
        if own is not None:
            return await _told(chain, own.number)
        await refuse_missing(self._store, managed_location(row.table_id), staged)
        async with self._lanes.enter(staged.table_id):
            while True:
                head = await chain.head()
                own = await self._published.own(chain, attempt, head)
                if own is not None:
                    return await _told(chain, own.number)
                publication = attempt.publication()
                made = await self._append(chain, head, mode, staged.files, publication)
                if made is not None:
                    return await _told(chain, made)

    async def fence(self, table_id: str, attempt: Attempt, since: int) -> Numbered | int:
        """What an attempt at the same task has published above `since`, or else the number of a fence."""
        await self._table(table_id)
        chain = self._pointers.chain(table_id)
        async with self._lanes.enter(table_id):
            while True:
                head = await chain.head()
                done = published_by_task(
                    attempt.task, await self._published.above(chain, since, head)
                )
                if done is not None:
                    return done
                publication = attempt.publication(is_fence=True)
                made = await self._append(chain, head, Mode.FENCE, {}, publication)
                if made is not None:
                    return made

    async def number(self, table_id: str) -> int:
        """The last version of a table, -1 if it has none."""
        return (await self._pointers.chain(table_id).head()).number

    async def files(self, table_id: str, *, version: int | None = None) -> FilesNow:
        """All files of a table as it stands now, or of an earlier version that is still kept."""
        row = await self._table(table_id)
        chain = self._pointers.chain(table_id)
        head = await chain.head()
        if version is None or version == head.number:
            number, content = head.number, await self._contents.at(chain, head)
        elif 0 <= version < head.number and version >= await chain.floor():
            number, content = version, await self._contents.read(chain, version)
        else:
            raise NotFound(
                f"{row.name} has no version {version}: the newest is {head.number}, and old ones are "
                f"removed after a while"
            )
        return FilesNow(
            table_id=table_id,
            number=number,
            location=self._location_root + managed_location(row.table_id),
            files=content.files,
            materials=content.materials,
        )

    async def versions(self, table_id: str) -> tuple[str | None, dict[str, str]]:
        """The version that last changed the data, and the attempt that made each partition."""
        chain = self._pointers.chain(table_id)
        head = await chain.head()
        if head.entry is None:
            return None, {}
        number = parquet_pointer_of(head.entry).data_number
        content = await self._contents.at(chain, head)
        return (None if number < 0 else str(number)), content.materials

    async def close(self) -> None:
        """Leave fresh hints behind."""
        await self._pointers.close()

    async def _append(
        self, chain: Chain, head: Head, mode: Mode, changed: Files, publication: Publication
    ) -> int | None:
        """Make the next version; None if somebody else has made it."""
        before, number = await self._contents.at(chain, head), head.number + 1
        body = _body(head, before, mode, changed, publication)
        content = after(before, body)
        if number > 0 and number % EVERY == 0:
            full = await self._contents.write_full(chain, number, content)
            body = msgspec.structs.replace(body, full=full)
        try:
            made = await chain.append(head, body)
        except Conflict:
            return None
        if made.entry is not None:
            self._published.learn(chain, made.entry)
            self._contents.keep(chain, made.entry, content)
        return made.number

    async def _table(self, table_id: str) -> TableRow:
        """The row of a table whose files are ours to name."""
        row = (await (await self._reader.head()).find(table_id)).row
        if not isinstance(row, TableRow):
            raise NotFound(f"there is no table {table_id[:80]!r}")
        if row.format is not TableFormat.PARQUET:
            raise Invalid(f"{row.name} is no plain Parquet table: its format publishes by itself")
        if row.location != managed_location(row.table_id):
            raise Invalid(f"{row.name} lies elsewhere: only managed tables have versions")
        return row


def _body(
    head: Head, before: Content, mode: Mode, changed: Files, publication: Publication
) -> ParquetPointer:
    last = None if head.entry is None else parquet_pointer_of(head.entry)
    totals = Totals() if last is None else last.totals
    data_number = -1 if last is None else last.data_number
    return ParquetPointer(
        mode=mode,
        publication=publication,
        totals=totals_after(totals, before, mode, changed),
        data_number=data_number if mode is Mode.FENCE else head.number + 1,
        changed=changed,
    )


async def _told(chain: Chain, number: int) -> FilesPublished:
    """What a version is answered with, the first time and ever after."""
    known = chain.remembered()
    entry = known.entry if known is not None and known.number == number else None
    totals = parquet_pointer_of(entry or await chain.read(number)).totals
    return FilesPublished(number=number, rows=totals.rows, bytes=totals.bytes, files=totals.files)
