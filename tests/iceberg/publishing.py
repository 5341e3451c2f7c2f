"""Attempts at tasks, and the commits by which they publish."""

from typing import Any

from arco.catalog.publication import ATTEMPT_PROPERTY, DispatchedAttempt
from arco.core import json
from arco.core.json import Json
from arco.iceberg.engine.metadata import current_snapshot_id
from arco.iceberg.loaded_metadata import LoadedMetadata
from tests.iceberg.engine.sample_metadata import point, snapshot, update
from tests.iceberg.iceberg_setup import Api, IcebergSetup

TASK = "run/s.t@ds=1"


def attempt_at(
    setup: IcebergSetup, attempt_id: str, number: int, /, *, task: str = TASK, **more: Any
) -> DispatchedAttempt:
    """An attempt that was dispatched when a number was the head, just now."""
    fields: dict[str, Any] = {"partitions": ("ds=1",), **more}
    fields.setdefault("dispatched_at_ms", setup.inner.clock.now_ms())
    return DispatchedAttempt(
        attempt_id=attempt_id, task=task, dispatched_at_number=number, **fields
    )


async def adding(
    api: Api, snapshot_id: int, attempt: DispatchedAttempt | str | None, name: str = "t"
) -> dict[str, Json]:
    """The update that adds a snapshot on top of what the table holds."""
    metadata = (await api.load(name)).metadata
    attempt_text = attempt if isinstance(attempt, str | None) else json.encode(attempt).decode()
    summary = {"operation": "append"} | (
        {} if attempt_text is None else {ATTEMPT_PROPERTY: attempt_text}
    )
    last_sequence_number = metadata["last-sequence-number"]
    assert isinstance(last_sequence_number, int)
    more: dict[str, Any] = {
        "sequence-number": last_sequence_number + 1,
        "manifest-list": f"{metadata['location']}/metadata/snap-{snapshot_id}.avro",
        "summary": summary,
    }
    new_snapshot = snapshot(snapshot_id, current_snapshot_id(metadata), **more)
    return update("add-snapshot", snapshot=new_snapshot)


async def stage(
    api: Api, snapshot_id: int, attempt: DispatchedAttempt | str | None
) -> LoadedMetadata:
    """A snapshot that no branch names."""
    return await api.commit("t", await adding(api, snapshot_id, attempt))


async def publish(
    api: Api, snapshot_id: int, attempt: DispatchedAttempt | str | None, *, key: str | None = None
) -> LoadedMetadata:
    """A snapshot on `main`, in one commit that nothing but the fence can refuse."""
    return await api.commit(
        "t", await adding(api, snapshot_id, attempt), point(snapshot_id), key=key
    )


async def current(api: Api, name: str = "t") -> int | None:
    """The snapshot that readers see."""
    return current_snapshot_id((await api.load(name)).metadata)
