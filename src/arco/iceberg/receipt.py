"""Receipts: for each commit a note before it, and one after it that says that it was told of.

The first is written beside the metadata file and is for people who look into a crash. The second is
written once the event of the commit is in the ledger, so a commit without it is told of again by the
reconciler; its name follows from the metadata file, the table and the number, so it is written once
whoever writes it.
"""

from datetime import datetime

import msgspec

from arco.core import json
from arco.core.errors import ArcoError, Conflict
from arco.core.hashing import sha256_hex
from arco.iceberg.pointer import Pointer, pointer_of
from arco.storage.entry import Entry
from arco.storage.store import Store

FORMAT = 1


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """The body of both."""

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
    """Where a receipt is kept."""
    return f"events/{at:%Y-%m-%d}/iceberg/{state}/{commit_key}.json"


def commit_key(metadata_location: str) -> str:
    """The name of a commit among receipts."""
    return sha256_hex(metadata_location.encode())


async def write_pending(
    store: Store, at: datetime, table_id: str, number: int, pointer: Pointer
) -> None:
    """Note that a commit is about to happen; whatever is wrong with it, the commit goes on."""
    receipt = _receipt(table_id, number, pointer)
    try:
        await store.create(receipt_key("pending", at, receipt.commit_key), json.encode(receipt))
    except ArcoError:
        return


async def write_committed(store: Store, table_id: str, entry: Entry) -> None:
    """Note that a commit was told of."""
    receipt = _receipt(table_id, entry.number, pointer_of(entry))
    try:
        await store.create(_committed(table_id, entry), json.encode(receipt))
    except Conflict:
        return  # somebody has noted it already


async def is_told(store: Store, table_id: str, entry: Entry) -> bool:
    """Whether the event of this commit is in the ledger for sure."""
    return await store.find(_committed(table_id, entry)) is not None


def _committed(table_id: str, entry: Entry) -> str:
    key = commit_key(pointer_of(entry).metadata_location)
    # Another table, a tombstone, an undrop or an aborted transaction may name the same file.
    name = f"{key}-{table_id}-{entry.number}"
    return receipt_key("committed", entry.record.created_at, name)


def _receipt(table_id: str, number: int, pointer: Pointer) -> Receipt:
    return Receipt(
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
