"""The steps after a commit, which run while the client already has its answer.

They append the commit's event, write its receipt, update the columns in the catalog and delete obsolete
metadata files. None of them decides anything: the reconciler repeats what fails. Event ids and receipt
names follow from the table and the pointer number, so reporting a commit twice has the effect of
reporting it once. The pending receipt, written with the metadata file, helps people after a crash; the
committed one says that the event is in the ledger.
"""

import hashlib
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec
from ulid import ULID

from arco.catalog.change import SYSTEM, change
from arco.catalog.committer import Committer
from arco.catalog.ddl import AttachedColumn, ProjectColumns
from arco.catalog.publication import FLOW, task_of
from arco.core import json
from arco.core.clock import utc
from arco.core.errors import ArcoError, Conflict
from arco.core.hashing import sha256_hex
from arco.core.runtime import Runtime
from arco.core.tasks import Task
from arco.events.table import ICEBERG_COMMITTED_NAME, ICEBERG_COMMITTED_VERSION, IcebergCommitted
from arco.iceberg.files import TableFiles
from arco.iceberg.pointer import Pointer, pointer_of
from arco.ledger.envelope import Envelope, Source
from arco.ledger.writer import LedgerWriter
from arco.storage.entry import Entry
from arco.storage.store import Store

_MAX_UNFINISHED = 10_000
_PATIENCE_MS = 5_000  # how long `close` waits

FORMAT = 1


@dataclass(frozen=True)
class TableShape:
    """What the catalog shows of a table: its columns, and its location if that has changed."""

    columns: tuple[AttachedColumn, ...]
    location: str | None = None


class AfterCommit:
    """Runs the steps after commits in the background."""

    def __init__(
        self, store: Store, writer: LedgerWriter, committer: Committer, files: TableFiles
    ) -> None:
        self._store = store
        self._writer = writer
        self._committer = committer
        self._files = files
        self._tasks = store.runtime.tasks
        self._running: set[Task[None]] = set()
        self.unfinished: dict[str, None] = {}  # tables that the reconciler should look at soon

    def schedule(
        self,
        table_id: str,
        entry: Entry,
        *,
        shape: TableShape | None = None,
        obsolete: Sequence[str] = (),
    ) -> None:
        """Schedule the steps for a new pointer: `shape` if it has changed, `obsolete` files to delete."""
        self.run_in_background(table_id, self.report(table_id, entry))
        if shape is not None:
            self.run_in_background(table_id, self.project(table_id, entry.number, shape))
        if obsolete:
            self.run_in_background(table_id, self._remove(obsolete))

    async def report(self, table_id: str, entry: Entry) -> None:
        """Append the event of a pointer, then write its committed receipt."""
        await self._writer.append([committed_event(self._store.runtime, table_id, entry)])
        await write_committed_receipt(self._store, table_id, entry)

    async def project(self, table_id: str, number: int, shape: TableShape) -> None:
        """Update the columns in the catalog; older ones never replace newer ones (P34)."""
        request = ProjectColumns(
            table_id=table_id, pointer=number, columns=shape.columns, location=shape.location
        )
        await change(self._committer, request, SYSTEM)

    async def close(self) -> None:
        """Wait a few seconds for running steps; the reconciler finishes the rest."""
        try:
            await self._tasks.deadline(_PATIENCE_MS, self._wait())
        except TimeoutError:
            for task in self._running:
                task.cancel()

    async def _wait(self) -> None:
        for task in list(self._running):
            await task.wait()

    async def _remove(self, locations: Sequence[str]) -> None:
        """Delete metadata files that the table gave up, if this process has the right to."""
        if self._files.can_delete:
            for location in locations:
                await self._files.delete(location)

    def run_in_background(self, table_id: str, work: Coroutine[Any, Any, None]) -> None:
        """Run work on a table in the background; a failure is left to the reconciler."""
        self._running = {task for task in self._running if not task.done()}
        self._running.add(self._tasks.spawn(self._finish(table_id, work)))

    async def _finish(self, table_id: str, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except ArcoError:
            if len(self.unfinished) < _MAX_UNFINISHED:
                self.unfinished[table_id] = None


def committed_event(runtime: Runtime, table_id: str, entry: Entry) -> Envelope:
    """The event of a pointer."""
    pointer = pointer_of(entry)
    return Envelope(
        event_id=_event_id(table_id, entry),
        event_type=ICEBERG_COMMITTED_NAME,
        event_version=ICEBERG_COMMITTED_VERSION,
        occurred_at=entry.record.created_at,
        received_at=utc(runtime.clock.now_ms()),
        idempotency_key=f"{table_id}:{entry.number}",
        source=Source(type="iceberg"),
        payload=msgspec.Raw(json.encode(_payload(table_id, entry, pointer))),
        caller=pointer.actor,
    )


def _payload(table_id: str, entry: Entry, pointer: Pointer) -> IcebergCommitted:
    facts, made_by = pointer.snapshot, pointer.publication
    run_id, task_id = (None, None) if made_by is None else task_of(made_by)
    return IcebergCommitted(
        table_id=table_id,
        pointer_number=entry.number,
        operation=pointer.operation,
        actor=pointer.actor,
        engine=pointer.engine,
        update_source=pointer.update_source if pointer.publication is None else FLOW,
        metadata_location=pointer.metadata_location,
        previous_location=pointer.previous_location,
        snapshot_id=None if facts is None else str(facts.snapshot_id),
        snapshot_operation=None if facts is None else facts.operation,
        row_count=None if facts is None else facts.rows,
        size_bytes=None if facts is None else facts.size_bytes,
        file_count=None if facts is None else facts.files,
        added_rows=None if facts is None else facts.added_rows,
        added_bytes=None if facts is None else facts.added_bytes,
        changed=pointer.changed,
        transaction=pointer.transaction,
        run_id=run_id,
        task_id=task_id,
        attempt_id=None if made_by is None else made_by.attempt_id,
        committed_at=entry.record.created_at,
    )


def _event_id(table_id: str, entry: Entry) -> str:
    """A ULID with the time of the commit, derived from the table and the pointer number."""
    noise = hashlib.sha256(f"{table_id}:{entry.number}".encode()).digest()[:10]
    return str(ULID.from_bytes(entry.created_ms.to_bytes(6, "big") + noise))


class CommitReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """The body of a pending or committed receipt."""

    format: int = FORMAT
    commit_key: str
    table_id: str
    pointer_number: int
    request_id: str
    metadata_location: str
    base_location: str | None = None
    operation: str
    actor: str
    engine: str | None = None
    snapshot_id: int | None = None
    transaction: str | None = None


def receipt_key(state: str, at: datetime, commit_key: str) -> str:
    """The key of a receipt."""
    return f"events/{at:%Y-%m-%d}/iceberg/{state}/{commit_key}.json"


def commit_key(metadata_location: str) -> str:
    """The name of a commit among receipts."""
    return sha256_hex(metadata_location.encode())


async def write_pending_receipt(
    store: Store, at: datetime, table_id: str, number: int, pointer: Pointer
) -> None:
    """Record that a commit is about to happen; a failure here does not stop the commit."""
    receipt = _receipt(table_id, number, pointer)
    try:
        await store.create(receipt_key("pending", at, receipt.commit_key), json.encode(receipt))
    except ArcoError:
        return


async def write_committed_receipt(store: Store, table_id: str, entry: Entry) -> None:
    """Record that the event of a commit was appended."""
    receipt = _receipt(table_id, entry.number, pointer_of(entry))
    try:
        await store.create(_committed(table_id, entry), json.encode(receipt))
    except Conflict:
        return  # another process has written it


async def is_reported(store: Store, table_id: str, entry: Entry) -> bool:
    """Whether the event of this commit is known to be in the ledger."""
    return await store.find(_committed(table_id, entry)) is not None


def _committed(table_id: str, entry: Entry) -> str:
    key = commit_key(pointer_of(entry).metadata_location)
    # Another table, a tombstone, an undrop or an aborted transaction may name the same file.
    name = f"{key}-{table_id}-{entry.number}"
    return receipt_key("committed", entry.record.created_at, name)


def _receipt(table_id: str, number: int, pointer: Pointer) -> CommitReceipt:
    return CommitReceipt(
        commit_key=commit_key(pointer.metadata_location),
        table_id=table_id,
        pointer_number=number,
        request_id=pointer.request_id,
        metadata_location=pointer.metadata_location,
        base_location=pointer.previous_location,
        operation=pointer.operation,
        actor=pointer.actor,
        engine=pointer.engine,
        snapshot_id=None if pointer.snapshot is None else pointer.snapshot.snapshot_id,
        transaction=pointer.transaction,
    )
