"""Data files of Iceberg that are staged: no commit, nobody sees them, and none is left behind."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest

from arco.flow.define.options import Mode
from arco.flow.run.wire import TaskStatus
from arco.flow.spark.engine import activate
from arco.flow.spark.iceberg_table import IcebergCatalogs, IcebergTable
from arco.flow.spark.stage_iceberg import IcebergTables
from arco.flow.spark.target import Room
from tests.flow.spark.house import DAY, House, Watched
from tests.flow.spark.test_publishing import target

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


def loaded(house: House, name: str) -> IcebergTable:
    found = IcebergCatalogs(house.shared.open()).load(house.name(name))
    assert found is not None
    return found


def data_files(house: House, name: str) -> list[Path]:
    place = Path(urlsplit(str(loaded(house, name).java.location())).path, "data")
    return sorted(place.rglob("*.parquet"))


def commits(house: House) -> dict[str, float]:
    """How often commits of tables were answered so far, by the status."""
    with urlopen(f"{house.shared.url}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    start = 'arco_http_requests_total{operation="iceberg_update_table",status="'
    found = [line.removeprefix(start) for line in lines if line.startswith(start)]
    return {line[:3]: float(line.rpartition(" ")[2]) for line in found}


def test_staging_commits_nothing_and_its_rows_can_be_read_back(house: House) -> None:
    session = house.shared.open().newSession()
    activate(session)
    tables = IcebergTables(Room(session, house.shared.lake))
    wanted = target(house, Mode("append"), 1, -1)
    frame = session.range(4)
    tables.open(wanted, frame.schema)
    before = loaded(house, "$.t").number
    staged = tables.stage(wanted, frame)
    assert sorted(row[0] for row in staged.rows(session).collect()) == [0, 1, 2, 3]
    assert (staged.files, staged.bytes) == (
        2,
        sum(p.stat().st_size for p in data_files(house, "$.t")),
    )
    assert loaded(house, "$.t").number == before
    assert house.rows("$.t") == []
    tables.close()
    assert data_files(house, "$.t") == []


def test_what_an_attempt_leaves_that_fails_while_it_writes_is_deleted(house: House) -> None:
    house.project(SALES.replace("CHECKS", ""))
    house.made("$.sales", DAY)
    there = data_files(house, "$.sales")
    outcome = house.run("$.sales", "ds=2026-01-06", params={"fail": "1"})
    assert outcome.status is TaskStatus.FAILED
    assert data_files(house, "$.sales") == there


def test_rows_that_a_check_refuses_can_be_looked_at(house: House) -> None:
    house.project(SALES.replace("CHECKS", "checks=[c.expr('id < 5')]"))
    outcome = house.run("$.sales", DAY)
    assert outcome.status is TaskStatus.BLOCKED
    assert outcome.error is not None
    number = outcome.error.rpartition("snapshot ")[2]
    looked = house.spark.read.option("versionAsOf", number).table(f"{house.schema}.sales")
    assert looked.count() == 10
    assert house.rows("$.sales") == []


def test_a_later_attempt_deletes_what_an_earlier_one_has_left(house: House) -> None:
    house.project(SALES.replace("CHECKS", ""))
    first = house.lease("$.sales", DAY, run="RUNX")
    house.made("$.sales", "ds=2026-01-06")
    folder = data_files(house, "$.sales")[0].parents[3]
    left = folder / first.attempt_id / "once" / DAY / "left.parquet"
    left.parent.mkdir(parents=True)
    left.write_bytes(b"of a worker that was killed")
    house.made("$.sales", DAY, run="RUNX", attempt=2)
    assert left not in data_files(house, "$.sales")
    assert len(house.rows("$.sales")) == 20


def test_an_attempt_that_was_published_before_keeps_those_files_alone(house: House) -> None:
    house.project(SALES.replace("CHECKS", ""))
    task = house.lease("$.sales", DAY)
    assert house.carry_out(task).status is TaskStatus.SUCCESS
    there = data_files(house, "$.sales")
    assert house.carry_out(task).status is TaskStatus.SUCCESS
    assert data_files(house, "$.sales") == there
    assert len(house.rows("$.sales")) == 10


@pytest.mark.parametrize("version", ["2", pytest.param("3", marks=pytest.mark.interop)])
def test_a_merge_takes_in_what_another_process_has_written_meanwhile(
    house: House, version: str
) -> None:
    house.project(MERGED)
    house.made("$.t", DAY)
    name = house.name("$.t")
    house.spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('format-version' = '{version}')")

    class Meanwhile(Watched):
        """Another program writes between the look at the table and the publication."""

        def progress(self, progress: object) -> None:
            if getattr(progress, "phase", "") == "publishing" and not self.lines:
                self.log("the other program writes")
                other = house.shared.open().newSession()
                other.sql(f"INSERT INTO {name} VALUES (2, 'other', 'x'), (7, 'other', 'x')")

    task = house.lease("$.t", "ds=2026-01-06")
    outcome = house.carry_out(task, Meanwhile())
    assert outcome.status is TaskStatus.SUCCESS, outcome.error
    assert house.rows("$.t") == [
        *((each, "mine", "2026-01-06") for each in range(3)),
        (7, "other", "x"),
    ]


@pytest.mark.interop
@pytest.mark.parametrize("mode", ["'replace_partition'", "'append'", "merge(on=['id', 'ds'])"])
def test_partitions_side_by_side_lose_no_commit(house: House, mode: str) -> None:
    house.project(SALES.replace("CHECKS", f"mode={mode}"))
    before = commits(house)
    tasks = [house.lease("$.sales", f"ds=2026-01-{day:02}") for day in range(1, 25)]
    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(house.carry_out, tasks))
    assert [each.error for each in outcomes] == [None] * 24
    after = commits(house)
    assert after["200"] - before.get("200", 0) == 24
    assert after.get("409", 0) == before.get("409", 0)
    assert len(house.rows("$.sales")) == 240
