"""Events of a command with its own Arco are compacted on the very Spark that its tasks have used."""

from pathlib import Path

from arco.compactor.behind import waiting_segments
from arco.flow.spark.engine import SparkEngine
from arco.fold.tier2 import EXECUTIONS_DOMAIN
from arco.server.ledger_tidier import LedgerTidier
from arco.server.workspace_address import WorkspaceAddress
from arco.storage.roles import Role
from arco.storage.store import Store
from tests.flow.spark.shared import SharedSpark
from tests.flow.work.scripted import Scripted, book_here, carried_out, disk, plan

FEW = 2


async def _waiting(place: WorkspaceAddress, spark: SharedSpark) -> int:
    backend = place.backend(spark.runtime)
    store = Store(backend, spark.runtime, scope=place.scope(), role=Role.COMPACTOR)
    return await waiting_segments(store, EXECUTIONS_DOMAIN)


async def test_what_tasks_have_told_is_compacted_beside_them(
    shared: SharedSpark, tmp_path: Path
) -> None:
    said: list[str] = []
    place, runtime = disk(tmp_path / "store"), shared.runtime
    engine = SparkEngine(shared.open)
    assert engine.lend() is None  # it is not started for this
    engine.new_session()
    async with book_here("here", runtime, place) as book:
        await carried_out(book, runtime, Scripted(), plan("a", "b", "c", b=["a"], c=["b"]))
        count = await _waiting(place, shared)
        assert count > FEW
        await LedgerTidier(place, runtime, said.append, max_segments_with_spark=FEW).after(
            engine.lend()
        )
        assert said == [f"Tidying up {count:,} segments"]
        assert await _waiting(place, shared) == 0
        assert (await book.state([])).number >= 0  # there is a manifest, and it can be read
        runs = await carried_out(book, runtime, Scripted(), plan("again"))
    assert runs.counts == {"SUCCESS": 1}
    session = engine.lend()
    assert session is not None  # it was only lent
    assert session.range(3).count() == 3
