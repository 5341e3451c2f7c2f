import asyncio
import os
import time
from pathlib import Path

import pytest

from arco.core.errors import Corrupt, Invalid, Unavailable
from arco.query.limits import QueryLimits
from tests.query.workers import sql_processes
from tests.query.workspace import workspace

ENDLESS = "SELECT count(*) FROM generate_series(1, 1000000000000) WHERE value % 7 = 3"

_MIB = 1024 * 1024


async def test_a_query_that_takes_too_long_ends_and_so_does_its_process() -> None:
    async with workspace(limits=QueryLimits(run_ms=400)) as space:
        started = time.monotonic()
        with pytest.raises(Invalid, match=r"longer than 0.4 s"):
            await space.engine.query(ENDLESS)
        assert time.monotonic() - started < 10
        assert sql_processes() == []
        assert await space.column("SELECT 1") == [1]


async def test_a_query_that_is_given_up_ends_too() -> None:
    async with workspace() as space:
        await space.engine.query("SELECT 0")  # so that a worker is there, however slow it starts
        asked = asyncio.ensure_future(space.engine.query(ENDLESS))
        await asyncio.sleep(1)
        assert sql_processes()
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        assert sql_processes() == []
        assert await space.column("SELECT 1") == [1]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT repeat('a', 2000000000)",
        "SELECT length(repeat(lpad('a', 100000, 'b'), 100000))",
        "SELECT array_agg(value) FROM generate_series(1, 1000000000)",
        (
            "SELECT value FROM generate_series(1, 1000000000) ORDER BY value % 17 LIMIT 100000 "
            "OFFSET 900000000"
        ),
        (
            "SELECT sum(a.value) FROM generate_series(1, 100000000) a JOIN "
            "generate_series(1, 100000000) b ON a.value = b.value"
        ),
        "SELECT " + "-".join(["1"] * 30_000),
        "SELECT " + "(" * 10_000 + "1" + ")" * 10_000,
        "SELECT x FROM (SELECT 'a' AS x) WHERE x IN (" + "'a'," * 20_000 + "'b')",
    ],
)
async def test_a_query_that_takes_too_much_is_refused_or_answered_and_the_next_is_served(
    sql: str,
) -> None:
    limits = QueryLimits(process_bytes=512 * _MIB, pool_bytes=64 * _MIB)
    async with workspace(limits=limits) as space:
        try:
            await space.engine.query(sql)
        except Invalid as refusal:
            assert "\n" not in str(refusal)
        assert await space.column("SELECT name FROM system.catalogs") == ["default"]


async def test_memory_beyond_the_limit_is_refused_in_words() -> None:
    async with workspace(limits=QueryLimits(process_bytes=512 * _MIB, pool_bytes=_MIB)) as space:
        for sql in (
            "SELECT repeat('a', 2000000000)",
            "SELECT value FROM generate_series(1, 3000000) GROUP BY value ORDER BY value LIMIT 1",
        ):
            with pytest.raises(Invalid, match="memory"):
                await space.engine.query(sql)


async def test_a_result_with_too_many_rows_asks_for_a_limit() -> None:
    async with workspace(limits=QueryLimits(rows=1_000)) as space:
        exactly = await space.engine.query("SELECT * FROM generate_series(1, 1000)")
        assert exactly.num_rows == 1_000
        with pytest.raises(Invalid, match="LIMIT"):
            await space.engine.query("SELECT * FROM generate_series(1, 1001)")


async def test_a_result_with_too_many_bytes_is_refused() -> None:
    async with workspace(limits=QueryLimits(result_bytes=100_000)) as space:
        with pytest.raises(Invalid, match="bytes"):
            await space.engine.query("SELECT repeat('a', 10000) FROM generate_series(1, 100)")


async def test_a_statement_that_is_too_long_is_refused() -> None:
    async with workspace(limits=QueryLimits(sql_chars=100)) as space:
        with pytest.raises(Invalid, match="100"):
            await space.engine.query("SELECT 1" + " " * 100)


async def test_queries_wait_for_a_worker_and_not_for_ever() -> None:
    limits = QueryLimits(workers=1, wait_ms=200, run_ms=1_500)
    async with workspace(limits=limits) as space:
        slow = asyncio.ensure_future(space.engine.query(ENDLESS))
        await asyncio.sleep(0.05)
        with pytest.raises(Unavailable) as refusal:
            await space.engine.query("SELECT 1")
        assert refusal.value.retry_after_ms is not None
        with pytest.raises(Invalid):
            await slow
        assert await space.column("SELECT 1") == [1]


async def test_many_queries_at_once_are_all_answered_by_fewsql_processes() -> None:
    async with workspace(limits=QueryLimits(workers=2)) as space:
        asked = [space.column(f"SELECT {n} FROM system.catalogs") for n in range(40)]
        assert await asyncio.gather(*asked) == [[n] for n in range(40)]
        assert len(sql_processes()) <= 2


async def test_one_that_gives_up_waiting_does_not_take_anothers_turn() -> None:
    async with workspace(limits=QueryLimits(workers=1)) as space:
        asked = [asyncio.ensure_future(space.column(f"SELECT {n}")) for n in range(6)]
        await asyncio.sleep(0)
        for at in (1, 3):
            asked[at].cancel()
        left = [each for at, each in enumerate(asked) if at not in (1, 3)]
        assert await asyncio.gather(*left) == [[0], [2], [4], [5]]


async def test_a_worker_that_was_killed_while_idle_is_replaced() -> None:
    async with workspace() as space:
        assert await space.column("SELECT 1") == [1]
        [worker] = sql_processes()
        os.kill(worker, 9)
        assert await space.column("SELECT 2") == [2]
        assert worker not in sql_processes()


async def test_a_worker_holds_no_credentials() -> None:
    async with workspace() as space:
        await space.engine.query("SELECT 1")
        [worker] = sql_processes()
        names = {
            entry.partition(b"=")[0]
            for entry in (Path("/proc") / str(worker) / "environ").read_bytes().split(b"\0")
        }
        assert b"PYTHONPATH" in names
        assert not [name for name in names if name.startswith((b"AWS", b"AZURE", b"GOOGLE"))]


async def test_a_closed_engine_leaves_no_process_and_answers_no_more() -> None:
    async with workspace() as space:
        await space.engine.query("SELECT 1")
        await space.engine.close()
        assert sql_processes() == []
        with pytest.raises(Unavailable):
            await space.engine.query("SELECT 1")


async def test_a_file_that_was_changed_is_corrupt_and_not_an_empty_answer(tmp_path: Path) -> None:
    async with workspace(tmp_path / "store") as space:
        await space.schema("s")
        await space.table("s", "t")
        snapshot = await space.reader().head()
        assert snapshot.manifest is not None
        path = snapshot.manifest.tail["tables"][-1].path
        [file] = (tmp_path / "store").rglob(path)
        raw = bytearray(file.read_bytes())
        raw[len(raw) // 2] ^= 1
        file.chmod(0o644)
        file.write_bytes(raw)
        with pytest.raises(Corrupt):
            await space.engine.query("SELECT * FROM system.tables")
        assert await space.column("SELECT name FROM system.schemas") == ["s"]
