"""Plain Parquet tables: publish staged files, fence partitions, and list the files of a version.

An attempt writes its files below `data/{attempt_id}/` in the table's folder, and they stay there: a
version names them, or no reader ever sees them. It can publish only its own files, and only existing ones
(law 3). A lost race is no conflict: the loser reads the new version and appends after it, unless another
attempt has published or fenced its partitions (P35).

Sequential round trips in a warm process: the table's row, the head, one for every 64 files that are looked
up, the head again, the version: 5; every 64th time one more.
"""

import re

import msgspec

from arco.catalog.location import managed_location
from arco.catalog.model import TableFormat, TableRow
from arco.catalog.publication import (
    WHOLE_TABLE,
    DispatchedAttempt,
    NumberedPublication,
    Publication,
    PublicationLog,
    published_by_task,
)
from arco.catalog.reader import SnapshotReader
from arco.core.errors import Conflict, Invalid, NotFound
from arco.core.keyed_lock import KeyedLock
from arco.flow.publish.content import ContentReader, TableContent, apply_pointer, totals_after
from arco.flow.publish.pointer import (
    FULL_LIST_INTERVAL,
    Files,
    ParquetPointer,
    ParquetPointers,
    PublishMode,
    TableTotals,
    parquet_pointer_of,
    publication_of,
)
from arco.flow.publish.wire import FilesPublished, FilesStaged, StagedFile, TableVersionFiles
from arco.storage.chain import Chain, Head
from arco.storage.chain_gc import DEFAULT_RETENTION_MS
from arco.storage.key import check_key
from arco.storage.store import Store

MAX_FILES = 50_000  # of one publication: each is looked up within the half minute of a request

_AT_ONCE = 64
# A fixed form, so that garbage collection recognizes staged files in a table's folder.
_ATTEMPT = re.compile(r"[0-9a-f]{32}")
_MODES = (PublishMode.APPEND, PublishMode.REPLACE_PARTITION, PublishMode.REPLACE)


def is_attempt_id(text: str) -> bool:
    """Whether a folder can be that of an attempt."""
    return _ATTEMPT.fullmatch(text) is not None


def _publish_mode(staged: FilesStaged) -> PublishMode:
    """The mode of a request; `Invalid` for another text."""
    mode = next((each for each in _MODES if each == staged.mode), None)
    if mode is None:
        raise Invalid(f"mode is one of {', '.join(_MODES)}, not {staged.mode[:40]!r}")
    return mode


def _validate_staged(staged: FilesStaged) -> DispatchedAttempt:
    """The attempt with the partitions that it publishes; `Invalid` if these are not its own files.

    Mode `replace` publishes the complete table, whichever partition the attempt was dispatched for.
    """
    attempt, mode = staged.attempt, _publish_mode(staged)
    if not is_attempt_id(attempt.attempt_id):
        raise Invalid("the id of an attempt is 32 hexadecimal digits")
    if mode is PublishMode.REPLACE:
        attempt = msgspec.structs.replace(attempt, partitions=WHOLE_TABLE)
    strange = sorted(staged.files.keys() - set(attempt.partitions)) if attempt.partitions else []
    if strange:
        raise Invalid(f"the attempt does not hold partition {strange[0][:200]!r}")
    _check_files(staged, f"data/{attempt.attempt_id}/")
    return attempt


def _check_files(staged: FilesStaged, folder: str) -> None:
    files = _staged_files(staged)
    if len(files) > MAX_FILES:
        raise Invalid(f"a publication has at most {MAX_FILES} files, not {len(files)}")
    if len({each.path for each in files}) < len(files):
        raise Invalid("a file is in one partition, once")
    for file in files:
        check_key(file.path)
        if not file.path.startswith(folder):
            raise Invalid(f"files of this attempt lie below {folder}, not at {file.path[:200]!r}")
        if file.rows < 0 or file.bytes < 0:
            raise Invalid(f"a file has 0 rows and bytes or more: {file.path[:200]!r}")


async def _require_files(store: Store, location: str, staged: FilesStaged) -> None:
    """Raise `Invalid` unless every file exists with the reported size."""
    files = _staged_files(staged)
    for start in range(0, len(files), _AT_ONCE):
        some = files[start : start + _AT_ONCE]
        await store.runtime.tasks.gather(*(_require_file(store, location, each) for each in some))


async def _require_file(store: Store, location: str, file: StagedFile) -> None:
    try:
        meta = await store.head(location + file.path)
    except NotFound as missing:
        raise Invalid(f"there is no file {file.path[:200]!r} below the table") from missing
    if meta.size_bytes != file.bytes:
        raise Invalid(
            f"{file.path[:200]!r} has {meta.size_bytes} bytes, not the {file.bytes} of the request"
        )


def _staged_files(staged: FilesStaged) -> list[StagedFile]:
    return [each for some in staged.files.values() for each in some]


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
        self._contents = ContentReader(store)
        self._published = PublicationLog(publication_of, retention_ms=retention_ms)
        self._table_lock = KeyedLock(store.runtime.tasks)

    async def publish(self, staged: FilesStaged) -> FilesPublished:
        """Create a version with staged files; idempotent.

        `AttemptFenced` if another attempt has published or fenced its partitions, `Unknown` if the version
        may or may not have been created: the caller retries.
        """
        attempt, mode = _validate_staged(staged), _publish_mode(staged)
        row = await self._table(staged.table_id)
        chain = self._pointers.chain(staged.table_id)
        # Answer a repeated or fenced request before any file is looked up.
        own = await self._published.own_publication(chain, attempt, await chain.head())
        if own is not None:
            return await _published_version(chain, own.number)
        await _require_files(self._store, managed_location(row.table_id), staged)
        async with self._table_lock.hold(staged.table_id):
            while True:
                head = await chain.head()
                own = await self._published.own_publication(chain, attempt, head)
                if own is not None:
                    return await _published_version(chain, own.number)
                publication = attempt.publication()
                made = await self._append(chain, head, mode, staged.files, publication)
                if made is not None:
                    return await _published_version(chain, made)

    async def fence(
        self, table_id: str, attempt: DispatchedAttempt, since: int
    ) -> NumberedPublication | int:
        """What an attempt at the same task published after `since`, or else the number of a new fence."""
        await self._table(table_id)
        chain = self._pointers.chain(table_id)
        async with self._table_lock.hold(table_id):
            while True:
                head = await chain.head()
                done = published_by_task(
                    attempt.task, await self._published.publications_since(chain, since, head)
                )
                if done is not None:
                    return done
                publication = attempt.publication(is_fence=True)
                made = await self._append(chain, head, PublishMode.FENCE, {}, publication)
                if made is not None:
                    return made

    async def publications(self, table_id: str, since: int) -> list[NumberedPublication]:
        """All publications and fences above a number; `AttemptFenced` if some are collected."""
        await self._table(table_id)
        chain = self._pointers.chain(table_id)
        return await self._published.publications_since(chain, since, await chain.head())

    async def number(self, table_id: str) -> int:
        """The newest version of a table, -1 if it has none."""
        return (await self._pointers.chain(table_id).head()).number

    async def files(self, table_id: str, *, version: int | None = None) -> TableVersionFiles:
        """All files of the newest version, or of an earlier one that still exists."""
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
                "deleted after the retention"
            )
        return TableVersionFiles(
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
        """Write the hints of the chains."""
        await self._pointers.close()

    async def _append(
        self, chain: Chain, head: Head, mode: PublishMode, changed: Files, publication: Publication
    ) -> int | None:
        """Create the next version; None if another process created it."""
        before, number = await self._contents.at(chain, head), head.number + 1
        body = _body(head, before, mode, changed, publication)
        content = apply_pointer(before, body)
        if number > 0 and number % FULL_LIST_INTERVAL == 0:
            full = await self._contents.write_full(chain, number, content)
            body = msgspec.structs.replace(body, full=full)
        try:
            made = await chain.append(head, body)
        except Conflict:
            return None
        if made.entry is not None:
            self._published.learn(chain, made.entry)
            self._contents.cache(chain, made.entry, content)
        return made.number

    async def _table(self, table_id: str) -> TableRow:
        """The row of a managed plain Parquet table; `Invalid` for any other table."""
        row = (await (await self._reader.head()).find(table_id)).row
        if not isinstance(row, TableRow):
            raise NotFound(f"there is no table {table_id[:80]!r}")
        if row.format is not TableFormat.PARQUET:
            raise Invalid(f"{row.name} is no plain Parquet table: commit to it by its own format")
        if row.location != managed_location(row.table_id):
            raise Invalid(f"{row.name} is an external table: only managed tables have versions")
        return row


def _body(
    head: Head, before: TableContent, mode: PublishMode, changed: Files, publication: Publication
) -> ParquetPointer:
    last = None if head.entry is None else parquet_pointer_of(head.entry)
    totals = TableTotals() if last is None else last.totals
    data_number = -1 if last is None else last.data_number
    return ParquetPointer(
        mode=mode,
        publication=publication,
        totals=totals_after(totals, before, mode, changed),
        data_number=data_number if mode is PublishMode.FENCE else head.number + 1,
        changed=changed,
    )


async def _published_version(chain: Chain, number: int) -> FilesPublished:
    """The answer for a version, the same for each request that repeats it."""
    head = chain.remembered()
    entry = head.entry if head is not None and head.number == number else None
    totals = parquet_pointer_of(entry or await chain.read(number)).totals
    return FilesPublished(number=number, rows=totals.rows, bytes=totals.bytes, files=totals.files)
