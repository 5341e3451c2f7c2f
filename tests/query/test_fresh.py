"""Fresh reads: what was acknowledged and is not compacted yet, as the next compaction will publish it."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from arco.catalog.reader import SnapshotReader
from arco.compactor.domain_compactor import DomainCompactor
from arco.core.errors import BacklogTooLarge, Invalid
from arco.core.scope import Scope
from arco.events.read import DecodedSegment
from arco.fold.tier2 import EXECUTIONS_DOMAIN, LINEAGE_DOMAIN, TIER2
from arco.ledger.writer import LedgerWriter
from arco.query.engine import SqlEngine
from arco.query.limits import QueryLimits
from arco.storage.backend import ObservedBackend
from arco.storage.roles import Role
from arco.storage.store import Store
from tests.compactor.in_process_engine import InProcessEngine
from tests.query.random_events import NOON, Events
from tests.query.workers import sql_processes
from tests.query.workspace import Workspace, workspace
from tests.storage.interposed import Interposed
from tests.storage.recorder import Recorder

COUNT = "SELECT count(*) AS n FROM system.executions"


def _engine(
    space: Workspace, recorder: Recorder | None = None, limits: QueryLimits | None = None
) -> SqlEngine:
    backend = space.backend
    if recorder is not None:
        watched = Interposed(backend, before=recorder.begin, after=recorder.end)
        backend = ObservedBackend(watched, recorder, space.runtime.clock)
    store = Store(backend, space.runtime, scope=Scope(), role=Role.API)
    return SqlEngine(SnapshotReader(store), limits=limits)


def _compactor(space: Workspace, domain: str = EXECUTIONS_DOMAIN, **kwargs: Any) -> DomainCompactor:
    store = space.store(Role.COMPACTOR)
    return DomainCompactor(store, domain, InProcessEngine(store), **kwargs)


def _writer(space: Workspace, domain: str = EXECUTIONS_DOMAIN) -> LedgerWriter:
    return LedgerWriter(space.store(Role.API), domain)


async def _compact(compactor: DomainCompactor) -> None:
    while await compactor.cycle(everything=True) is not None:
        pass


async def _all(engine: SqlEngine, domain: str, freshness: str) -> dict[str, list[dict[str, Any]]]:
    """All rows of a domain, by table and sorted."""
    rows = {}
    for name in TIER2[domain]:
        table = await engine.query(f"SELECT * FROM system.{name}", freshness=freshness)
        rows[name] = sorted(table.to_pylist(), key=repr)
    return rows


async def _count(engine: SqlEngine, freshness: str | None = "fresh") -> int:
    [[n]] = (await engine.query(COUNT, freshness=freshness)).to_pydict().values()
    return int(n)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("domain", TIER2)
async def test_a_fresh_read_is_what_the_next_compaction_publishes(domain: str, seed: int) -> None:
    async with workspace() as space:
        engine, compactor = _engine(space), _compactor(space, domain)
        events = Events(space.runtime, domain, seed)
        for round_ in range(4):
            writers = [_writer(space, domain) for _ in range(2)]
            for _ in range(3):
                await asyncio.gather(*(each.append_lines(events.lines(12)) for each in writers))
                if round_ == 3:
                    await _all(engine, domain, "fresh")  # segments that come bit by bit
            if seed % 2:
                await asyncio.gather(*(each.close() for each in writers))
            fresh = await _all(engine, domain, "fresh")
            before = await _all(engine, domain, "published")
            await _compact(compactor)
            published = await _all(engine, domain, "published")
            assert fresh == published
            assert fresh != before
            assert await _all(engine, domain, "fresh") == published
            if round_ == 1:
                await compactor.merge()
        assert published["quarantine"]
        await engine.close()


async def test_without_asking_for_it_nothing_of_the_ledger_is_read() -> None:
    async with workspace() as space:
        await _writer(space).append_lines(Events(space.runtime, EXECUTIONS_DOMAIN, 1).lines(30))
        recorder = Recorder()
        engine = _engine(space, recorder)
        assert await _count(engine, None) == 0
        assert await _count(engine, "published") == 0
        assert [key for _, key in recorder.requests if "/ledger/" in key] == []
        assert await _count(engine) > 0
        await engine.close()


async def test_a_fresh_read_of_the_catalog_reads_no_ledger() -> None:
    async with workspace() as space:
        recorder = Recorder()
        engine = _engine(space, recorder)
        await engine.query("SELECT name FROM system.tables", freshness="fresh")
        assert [key for _, key in recorder.requests if "/ledger/" in key] == []
        await engine.close()


async def test_only_the_ledger_of_the_domain_that_is_asked_is_read() -> None:
    async with workspace() as space:
        for domain in TIER2:
            await _writer(space, domain).append_lines(Events(space.runtime, domain, 1).lines(5))
        recorder = Recorder()
        engine = _engine(space, recorder)
        await engine.query("SELECT * FROM system.lineage_edges", freshness="fresh")
        read = {
            key.split("/ledger/")[1].split("/")[0]
            for _, key in recorder.requests
            if "/ledger/" in key
        }
        assert read == {"lineage"}
        await engine.close()


async def test_a_segment_is_read_once_and_a_quiet_ledger_costs_two_trips() -> None:
    async with workspace() as space:
        events = Events(space.runtime, EXECUTIONS_DOMAIN, 3)
        writer = _writer(space)
        for _ in range(5):
            await writer.append_lines(events.lines(4))
        recorder = Recorder()
        engine = _engine(space, recorder)
        await _count(engine)
        read = [key for verb, key in recorder.requests if "/ledger/" in key and verb == "get"]
        # Five segments, each once and whole; where they end was found by glances at their first bytes.
        assert sorted(key[-8:-6] for key in read) == [f"{at:02d}" for at in range(5)]
        recorder.clear()
        await _count(engine)
        assert recorder.round_trips <= 3  # the next manifest, the next slot, the next segment
        assert len(recorder.requests) == 3
        await writer.append_lines(events.lines(4))
        recorder.clear()
        await _count(engine)
        read = [key for verb, key in recorder.requests if "/ledger/" in key and verb == "get"]
        assert [key[-8:-6] for key in read] == ["05"]
        assert recorder.round_trips <= 5
        await engine.close()


async def test_what_was_compacted_meanwhile_is_not_read_again() -> None:
    async with workspace() as space:
        events = Events(space.runtime, EXECUTIONS_DOMAIN, 4)
        writer, compactor = _writer(space), _compactor(space)
        recorder = Recorder()
        engine = _engine(space, recorder)
        for _ in range(3):
            await writer.append_lines(events.lines(6))
        await _count(engine)
        await writer.append_lines(events.lines(6))
        await _compact(compactor)
        await writer.append_lines(events.lines(6))
        recorder.clear()
        await _count(engine)
        read = [key for verb, key in recorder.requests if "/ledger/" in key and verb == "get"]
        assert [key[-8:-6] for key in read] == ["04"]
        tail = engine._sources.tails[EXECUTIONS_DOMAIN]
        assert [seq for _, seq in tail._read] == [4]  # what a manifest has is forgotten
        await engine.close()


@pytest.mark.parametrize(
    "limits",
    [QueryLimits(fresh_events=50), QueryLimits(fresh_bytes=10_000), QueryLimits(fresh_segments=5)],
)
async def test_more_than_a_fresh_read_can_take_is_refused_until_it_is_compacted(
    limits: QueryLimits,
) -> None:
    async with workspace() as space:
        events = Events(space.runtime, EXECUTIONS_DOMAIN, 5)
        writer = _writer(space)
        engine = _engine(space, limits=limits)
        for _ in range(8):
            await writer.append_lines(events.lines(10))
        for _ in range(2):
            with pytest.raises(BacklogTooLarge, match="compact") as refusal:
                await _count(engine)
            assert refusal.value.retry_after_ms is not None
        assert await _count(engine, "published") == 0
        await _compact(_compactor(space))
        await writer.append_lines(events.lines(3))
        assert await _count(engine) > 0
        await engine.close()


def _fan_out(space: Workspace, inputs: int, outputs: int) -> bytes:
    """A short event that makes a row for each partition that was read and each that was written."""
    keys = [f"d={at:03d}" for at in range(max(inputs, outputs))]
    return Events(space.runtime, LINEAGE_DOMAIN, 1).line(
        "lineage_observed",
        soundness="table_only",
        inputs=[{"table_id": "tbl-a", "partitions": keys[:inputs]}],
        outputs=[{"table_id": "tbl-b", "partitions": keys[:outputs]}],
        column_edges=[],
    )


@pytest.mark.parametrize(
    "limits", [QueryLimits(fresh_rows=30_000), QueryLimits(fresh_text_bytes=500_000)]
)
async def test_a_few_events_that_make_too_many_rows_are_refused_before_these_are_made(
    limits: QueryLimits,
) -> None:
    async with workspace() as space:
        writer, engine = _writer(space, LINEAGE_DOMAIN), _engine(space, limits=limits)
        sql = "SELECT count(*) AS n FROM system.partition_lineage"
        await writer.append_lines([_fan_out(space, 100, 100)])
        assert (await engine.query(sql, freshness="fresh")).to_pylist() == [{"n": 10_000}]
        for _ in range(5):
            await writer.append_lines([_fan_out(space, 100, 100)])
        for _ in range(2):
            with pytest.raises(
                BacklogTooLarge, match=r"6 events of lineage .* 60000 rows"
            ) as refusal:
                await engine.query(sql, freshness="fresh")
            assert refusal.value.retry_after_ms is not None
        # Other tables, and what is published, are read as ever.
        edges = "SELECT count(*) AS n FROM system.lineage_edges"
        assert (await engine.query(edges, freshness="fresh")).to_pylist() == [{"n": 1}]
        assert (await engine.query(sql)).to_pylist() == [{"n": 0}]
        await _compact(_compactor(space, LINEAGE_DOMAIN))
        assert (await engine.query(sql, freshness="fresh")).to_pylist() == [{"n": 10_000}]
        await engine.close()


async def test_rows_of_events_are_made_in_another_process_and_never_in_this_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with workspace() as space:
        await _writer(space).append_lines(Events(space.runtime, EXECUTIONS_DOMAIN, 6).lines(40))
        engine = _engine(space)

        def refuse(*_: object, **__: object) -> None:
            raise AssertionError("rows were made here")

        monkeypatch.setattr(DecodedSegment, "__init__", refuse)
        assert await _count(engine) > 0
        await engine.close()


async def test_a_fresh_read_that_is_given_up_ends_its_process() -> None:
    async with workspace() as space:
        writer, engine = _writer(space, LINEAGE_DOMAIN), _engine(space)
        for _ in range(40):
            await writer.append_lines([_fan_out(space, 100, 100)])
        await engine.query("SELECT 0")  # so that a process is there, however slow it starts
        sql = "SELECT count(*) AS n FROM system.partition_lineage"
        asked = asyncio.ensure_future(engine.query(sql, freshness="fresh"))
        await asyncio.sleep(0.5)
        assert sql_processes()
        assert not asked.done()
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        assert sql_processes() == []
        await engine.close()


async def test_many_fresh_reads_at_once_agree() -> None:
    async with workspace() as space:
        await _writer(space).append_lines(Events(space.runtime, EXECUTIONS_DOMAIN, 6).lines(40))
        recorder = Recorder()
        engine = _engine(space, recorder)
        counts = await asyncio.gather(*(_count(engine) for _ in range(8)))
        assert len(set(counts)) == 1
        assert counts[0] > 0
        read = [key for verb, key in recorder.requests if "/ledger/" in key and verb == "get"]
        assert len(read) == 1
        await engine.close()


async def test_events_older_than_what_is_retained_are_not_in_a_fresh_read_either() -> None:
    async with workspace() as space:
        events = Events(space.runtime, EXECUTIONS_DOMAIN, 7)
        engine, writer = _engine(space), _writer(space)
        await writer.append_lines(events.lines(20))
        assert await _count(engine) > 0
        since_then = space.runtime.clock.now_ms() / 1000 - NOON.timestamp() - 500
        assert since_then > 0
        retention = {"executions": timedelta(seconds=since_then)}
        compactor = _compactor(space, retention=retention)
        await _compact(compactor)
        await writer.append_lines(events.lines(60))
        fresh = await _all(engine, EXECUTIONS_DOMAIN, "fresh")
        await _compact(compactor)
        assert fresh == await _all(engine, EXECUTIONS_DOMAIN, "published")
        await engine.close()


async def test_statistics_beside_tables_are_fresh_too() -> None:
    async with workspace() as space:
        await space.schema("s")
        made = await space.table("s", "t")
        table_id = made.object.row.table_id  # type: ignore[union-attr]
        line = Events(space.runtime, EXECUTIONS_DOMAIN, 1).line(
            "table_profiled", table_id=table_id, row_count=12
        )
        await _writer(space).append_lines([line])
        engine = _engine(space)
        sql = "SELECT row_count FROM system.tables"
        assert (await engine.query(sql)).column(0).to_pylist() == [None]
        assert (await engine.query(sql, freshness="fresh")).column(0).to_pylist() == [12]
        await engine.close()


async def test_the_past_cannot_be_fresh() -> None:
    async with workspace() as space:
        with pytest.raises(Invalid, match="as_of"):
            await space.engine.query(COUNT, as_of="0", freshness="fresh")
