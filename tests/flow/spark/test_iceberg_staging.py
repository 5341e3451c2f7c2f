"""Staged Iceberg data files: no commit, not visible, and none is left behind."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import urlopen

import msgspec
import pytest

from arco.flow.coordinator.messages import TaskStatus
from arco.flow.define.options import Mode
from arco.flow.spark.engine import activate
from arco.flow.spark.iceberg_format import IcebergFormat
from arco.flow.spark.iceberg_staging import expire_stale_snapshots, stale_snapshot_ids
from arco.flow.spark.iceberg_table import IcebergCatalogs, IcebergTable
from arco.flow.spark.table_format import TableContext, WriteTarget
from arco.storage.chain_gc import DEFAULT_RETENTION_MS
from tests.flow.spark.harness import DAY, Harness, RecordingWatch
from tests.flow.spark.test_iceberg_publication import target

SALES = """
@asset("$.sales", partitions=Daily("ds", start="2026-01-01"), CHECKS)
def sales(spark, ctx):
    if ctx.params.get("fail"):
        return spark.range(10).selectExpr("if(id < 9, id, raise_error('no')) AS id")
    return spark.range(10)
"""
MERGED = """
@asset("$.t", partitions=Daily("ds", start="2026-01-01"), mode=merge(on=["id"]))
def t(spark, ctx):
    return spark.range(3).selectExpr("id", "'mine' AS who")
"""


def loaded(harness: Harness, name: str) -> IcebergTable:
    table = IcebergCatalogs(harness.shared.open()).load(harness.name(name))
    assert table is not None
    return table


def data_files(harness: Harness, name: str) -> list[Path]:
    place = Path(urlsplit(str(loaded(harness, name).java.location())).path, "data")
    return sorted(place.rglob("*.parquet"))


def commits(harness: Harness) -> dict[str, float]:
    """How often commits of tables were answered so far, by the status."""
    with urlopen(f"{harness.shared.url}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    start = 'arco_http_requests_total{operation="iceberg_update_table",status="'
    samples = [line.removeprefix(start) for line in lines if line.startswith(start)]
    return {line[:3]: float(line.rpartition(" ")[2]) for line in samples}


def test_staging_commits_nothing_and_its_rows_can_be_read_back(harness: Harness) -> None:
    session = harness.shared.open().newSession()
    activate(session)
    tables = IcebergFormat(TableContext(session, harness.shared.catalog))
    wanted = target(harness, Mode("append"), 1, -1)
    frame = session.range(4)
    tables.open(wanted, frame.schema)
    before = loaded(harness, "$.t").number
    staged = tables.stage(wanted, frame)
    assert sorted(row[0] for row in staged.rows(session).collect()) == [0, 1, 2, 3]
    assert (staged.files, staged.bytes) == (
        2,
        sum(p.stat().st_size for p in data_files(harness, "$.t")),
    )
    assert loaded(harness, "$.t").number == before
    assert harness.rows("$.t") == []
    tables.close()
    assert data_files(harness, "$.t") == []


def test_what_an_attempt_leaves_that_fails_while_it_writes_is_deleted(harness: Harness) -> None:
    harness.project(SALES.replace("CHECKS", ""))
    harness.materialize("$.sales", DAY)
    files_before = data_files(harness, "$.sales")
    outcome = harness.run("$.sales", "ds=2026-01-06", params={"fail": "1"})
    assert outcome.status is TaskStatus.FAILED
    assert data_files(harness, "$.sales") == files_before


def test_rows_that_fail_a_check_can_be_inspected(harness: Harness) -> None:
    harness.project(SALES.replace("CHECKS", "checks=[c.expr('id < 5')]"))
    outcome = harness.run("$.sales", DAY)
    assert outcome.status is TaskStatus.BLOCKED
    assert outcome.error is not None
    number = outcome.error.rpartition("snapshot ")[2]
    looked = harness.spark.read.option("versionAsOf", number).table(f"{harness.schema}.sales")
    assert looked.count() == 10
    assert harness.rows("$.sales") == []


def test_a_later_attempt_deletes_what_an_earlier_one_has_left(harness: Harness) -> None:
    harness.project(SALES.replace("CHECKS", ""))
    first = harness.lease("$.sales", DAY, run="RUNX")
    harness.materialize("$.sales", "ds=2026-01-06")
    folder = data_files(harness, "$.sales")[0].parents[3]
    left = folder / first.attempt_id / "once" / DAY / "left.parquet"
    left.parent.mkdir(parents=True)
    left.write_bytes(b"of a worker that was killed")
    harness.materialize("$.sales", DAY, run="RUNX", attempt=2)
    assert left not in data_files(harness, "$.sales")
    assert len(harness.rows("$.sales")) == 20


def test_an_attempt_that_was_published_before_keeps_those_files_alone(harness: Harness) -> None:
    harness.project(SALES.replace("CHECKS", ""))
    task = harness.lease("$.sales", DAY)
    assert harness.execute(task).status is TaskStatus.SUCCESS
    files_before = data_files(harness, "$.sales")
    assert harness.execute(task).status is TaskStatus.SUCCESS
    assert data_files(harness, "$.sales") == files_before
    assert len(harness.rows("$.sales")) == 10


@pytest.mark.parametrize("version", ["2", pytest.param("3", marks=pytest.mark.interop)])
def test_a_merge_takes_in_what_another_process_has_written_meanwhile(
    harness: Harness, version: str
) -> None:
    harness.project(MERGED)
    harness.materialize("$.t", DAY)
    name = harness.name("$.t")
    harness.spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('format-version' = '{version}')")

    class Meanwhile(RecordingWatch):
        """Another program writes between the look at the table and the publication."""

        def progress(self, progress: object) -> None:
            if getattr(progress, "phase", "") == "publishing" and not self.lines:
                self.log("the other program writes")
                other = harness.shared.open().newSession()
                other.sql(f"INSERT INTO {name} VALUES (2, 'other', 'x'), (7, 'other', 'x')")

    task = harness.lease("$.t", "ds=2026-01-06")
    outcome = harness.execute(task, Meanwhile())
    assert outcome.status is TaskStatus.SUCCESS, outcome.error
    assert harness.rows("$.t") == [
        *((each, "mine", "2026-01-06") for each in range(3)),
        (7, "other", "x"),
    ]


@pytest.mark.interop
@pytest.mark.parametrize("mode", ["'replace_partition'", "'append'", "merge(on=['id', 'ds'])"])
def test_partitions_side_by_side_lose_no_commit(harness: Harness, mode: str) -> None:
    harness.project(SALES.replace("CHECKS", f"mode={mode}"))
    before = commits(harness)
    tasks = [harness.lease("$.sales", f"ds=2026-01-{day:02}") for day in range(1, 25)]
    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(harness.execute, tasks))
    assert [each.error for each in outcomes] == [None] * 24
    after = commits(harness)
    assert after["200"] - before.get("200", 0) == 24
    assert after.get("409", 0) == before.get("409", 0)
    assert len(harness.rows("$.sales")) == 240


APPEND = Mode("append")
LATER = 2 * DEFAULT_RETENTION_MS
MINUTE = 60_000


class Bench:
    """A table with a session; attempts have a number and a time of dispatch."""

    def __init__(self, harness: Harness) -> None:
        self.harness = harness
        self.session = harness.shared.open().newSession()
        activate(self.session)
        self.tables = IcebergFormat(TableContext(self.session, harness.shared.catalog))
        self.head = -1

    def stage(self, number: int, *, publish: bool = False, later_ms: int = 0) -> None:
        """Stage a row, and publish it if `publish`; else it is kept for inspection."""
        wanted = self.target(number, later_ms)
        frame = self.session.range(number, number + 1)
        self.tables.open(wanted, frame.schema)
        staged = self.tables.stage(wanted, frame)
        if publish:
            self.head = self.tables.publish(wanted, staged).number
        else:
            self.tables.keep(wanted, staged)

    def target(self, number: int, later_ms: int = 0) -> WriteTarget:
        wanted = target(self.harness, APPEND, number, self.head)
        ms = wanted.attempt.dispatched_at_ms + later_ms
        attempt = msgspec.structs.replace(wanted.attempt, dispatched_at_ms=ms)
        return replace(wanted, attempt=attempt)

    def table(self) -> IcebergTable:
        table = IcebergCatalogs(self.session).load(self.harness.name("$.t"))
        assert table is not None
        return table

    def snapshots(self) -> int:
        return sum(1 for _ in self.table().snapshots())

    def files(self) -> set[str]:
        """All data files in the folder."""
        place = Path(urlsplit(str(self.table().java.location())).path, "data")
        return {each.name for each in place.rglob("*.parquet")}


def test_what_is_old_and_was_never_published_goes_with_its_files(harness: Harness) -> None:
    bench = Bench(harness)
    bench.stage(1, publish=True)
    published = bench.files()
    bench.stage(2)
    bench.stage(3, later_ms=DEFAULT_RETENTION_MS - MINUTE)
    assert len(bench.files()) == 3  # nothing is old yet
    soon = bench.target(4, DEFAULT_RETENTION_MS + MINUTE)
    assert expire_stale_snapshots(bench.session, bench.table(), soon) == 1
    assert expire_stale_snapshots(bench.session, bench.table(), soon) == 0
    assert bench.snapshots() == 2
    assert len(bench.files()) == 2
    assert published < bench.files()
    assert harness.rows("$.t") == [(1,)]


def test_the_next_write_expires_it(harness: Harness) -> None:
    bench = Bench(harness)
    bench.stage(1, publish=True)
    bench.stage(2)
    bench.stage(3, publish=True, later_ms=LATER)
    assert bench.snapshots() == 2
    assert len(bench.files()) == 2
    assert harness.rows("$.t") == [(1,), (3,)]


def test_publishing_lets_go_of_no_other_snapshot_however_old(harness: Harness) -> None:
    bench = Bench(harness)
    bench.stage(1, publish=True)
    java: Any = bench.table().java
    java.updateProperties().set("history.expire.max-snapshot-age-ms", "1").commit()
    bench.stage(2)
    bench.stage(3, publish=True)
    assert bench.snapshots() == 3


def test_snapshots_that_are_referenced_or_were_current_stay() -> None:
    summary = {"wap.id": "a" * 32, "arco.attempt": '{"dispatched_at_ms": 10}'}
    own = {number: {"snapshot-id": number, "summary": summary} for number in range(1, 8)}
    own[4]["parent-snapshot-id"] = 3
    own[6]["summary"] = {"wap.id": "of another tool", "arco.attempt": summary["arco.attempt"]}
    own[7]["summary"] = {"wap.id": "a" * 32}
    metadata = {
        "snapshots": list(own.values()),
        "snapshot-log": [{"snapshot-id": 1}],
        "refs": {"main": {"snapshot-id": 2}, "kept": {"snapshot-id": 4}},
    }
    assert stale_snapshot_ids(metadata, 11) == [5]
    assert stale_snapshot_ids(metadata, 10) == []
