"""Whether an event domain has a backlog, which decides whether Spark is started."""

from datetime import timedelta
from pathlib import Path

import msgspec

from arco.compactor.backlog import has_backlog
from arco.compactor.event_compactor import EventCompactor
from arco.core import json
from arco.core.clock import utc
from arco.core.ids import new_ulid
from arco.core.runtime import Runtime
from arco.core.scope import Scope
from arco.ledger.envelope import Envelope, Source
from arco.ledger.writer import LedgerWriter
from arco.storage.local import LocalBackend
from arco.storage.roles import Role
from arco.storage.store import Store
from tests.compactor.in_process_engine import InProcessEngine

DOMAIN = "executions"


def store_of(root: Path, runtime: Runtime, role: Role) -> Store:
    return Store(LocalBackend(root, runtime, fsync=False), runtime, scope=Scope(), role=role)


def started(runtime: Runtime) -> Envelope:
    now, event_id = utc(runtime.clock.now_ms()), new_ulid(runtime)
    return Envelope(
        event_id=event_id,
        event_type="execution_started",
        event_version=1,
        occurred_at=now,
        received_at=now,
        idempotency_key=event_id,
        source=Source("test"),
        payload=msgspec.Raw(json.encode({"execution_id": "a"})),
    )


async def compact(root: Path, runtime: Runtime) -> None:
    store = store_of(root, runtime, Role.COMPACTOR)
    await EventCompactor(store, InProcessEngine(store)).once()


async def test_events_not_yet_folded_count_and_seals_alone_do_not(
    tmp_path: Path, runtime: Runtime
) -> None:
    store = store_of(tmp_path, runtime, Role.API)
    assert not await has_backlog(store, DOMAIN, {})
    writer = LedgerWriter(store, DOMAIN)
    await writer.append([started(runtime)])
    assert await has_backlog(store, DOMAIN, {})
    assert not await has_backlog(store, "lineage", {})
    await compact(tmp_path, runtime)
    assert not await has_backlog(store, DOMAIN, {})
    await writer.append([started(runtime)])
    assert await has_backlog(store, DOMAIN, {})
    await compact(tmp_path, runtime)
    await writer.close()  # which seals the stream
    assert not await has_backlog(store, DOMAIN, {})


async def test_rows_that_are_kept_for_too_long_count_too(tmp_path: Path, runtime: Runtime) -> None:
    store = store_of(tmp_path, runtime, Role.API)
    keep = {"executions": timedelta(days=30)}
    assert not await has_backlog(store, DOMAIN, keep)  # nothing is kept yet
    await LedgerWriter(store, DOMAIN).append([started(runtime)])
    await compact(tmp_path, runtime)
    assert await has_backlog(store, DOMAIN, keep)
    assert not await has_backlog(store, DOMAIN, {"lineage_edges": timedelta(days=30)})
