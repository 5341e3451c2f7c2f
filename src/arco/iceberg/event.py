"""The event of a commit: who changed which table with what, for statistics and for whoever follows.

Its id follows from the table and the pointer's number, so that telling of a commit twice is telling once.
"""

import hashlib

import msgspec
from ulid import ULID

from arco.catalog.publication import FLOW, task_of
from arco.core import json
from arco.core.clock import utc
from arco.core.runtime import Runtime
from arco.events.table import ICEBERG_COMMITTED_NAME, ICEBERG_COMMITTED_VERSION, IcebergCommitted
from arco.iceberg.pointer import Pointer, pointer_of
from arco.ledger.envelope import Envelope, Source
from arco.storage.entry import Entry


def committed_event(runtime: Runtime, table_id: str, entry: Entry) -> Envelope:
    """A number of a pointer chain as an event."""
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
    """A ULID of the moment of the commit that says nothing but which commit it was."""
    noise = hashlib.sha256(f"{table_id}:{entry.number}".encode()).digest()[:10]
    return str(ULID.from_bytes(entry.created_ms.to_bytes(6, "big") + noise))
