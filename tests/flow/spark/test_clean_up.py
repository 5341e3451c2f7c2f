"""Events of a command with an embedded server are compacted on the Spark of its tasks."""

from pathlib import Path

from arco.compactor.backlog import count_waiting_segments
from arco.flow.spark.engine import WorkerSpark
from arco.fold.tier2 import EXECUTIONS_DOMAIN
from arco.server.embedded_compaction import EmbeddedCompaction
from arco.server.workspace_address import WorkspaceAddress
from arco.storage.roles import Role
from arco.storage.store import Store
from tests.flow.spark.shared_spark import SharedSpark
from tests.flow.worker.scripted_executor import (
    ScriptedExecutor,
    disk_place,
    open_coordinator,
    plan,
    run_plan,
)

FEW = 2


async def _waiting(place: WorkspaceAddress, spark: SharedSpark) -> int:
    backend = place.backend(spark.runtime)
    store = Store(backend, spark.runtime, scope=place.scope(), role=Role.COMPACTOR)
    return await count_waiting_segments(store, EXECUTIONS_DOMAIN)


async def test_events_of_tasks_are_compacted_after_them(
    shared: SharedSpark, tmp_path: Path
) -> None:
    messages: list[str] = []
    place, runtime = disk_place(tmp_path / "store"), shared.runtime
    engine = WorkerSpark(shared.open)
    assert engine.lend() is None  # it is not started for this
    engine.new_session()
    async with open_coordinator("here", runtime, place) as book:
        await run_plan(book, runtime, ScriptedExecutor(), plan("a", "b", "c", b=["a"], c=["b"]))
        count = await _waiting(place, shared)
        assert count > FEW
        await EmbeddedCompaction(
            place, runtime, messages.append, max_segments_with_spark=FEW
        ).after_command(engine.lend())
        assert messages == [f"Compacting {count:,} segments of events"]
        assert await _waiting(place, shared) == 0
        assert (await book.state([])).number >= 0  # there is a manifest, and it can be read
        runs = await run_plan(book, runtime, ScriptedExecutor(), plan("again"))
    assert runs.counts == {"SUCCESS": 1}
    session = engine.lend()
    assert session is not None  # it was only lent
    assert session.range(3).count() == 3
