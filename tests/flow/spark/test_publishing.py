"""Publishing when answers are lost, and by many at once."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from arco.catalog.publication import Attempt
from arco.core.errors import Conflict
from arco.events.partition_name import key_of
from arco.flow.define.options import Mode
from arco.flow.run.wire import TaskStatus
from arco.flow.spark.engine import activate
from arco.flow.spark.iceberg_table import IcebergCatalogs
from arco.flow.spark.shape import with_partition
from arco.flow.spark.stage_iceberg import IcebergTables
from arco.flow.spark.target import Published, Room, Target
from tests.flow.spark.house import House
from tests.interop.lossy import LossyWay, lossy_way

SALES = """
@asset("$.sales", partitions=Daily("ds", start="2026-01-01"), format="FORMAT")
def sales(spark, ctx):
    return spark.range(2)
"""


def target(
    house: House,
    mode: Mode,
    number: int,
    at: int,
    *,
    values: dict[str, str] | None = None,
    replaces: bool = False,
) -> Target:
    partition = key_of(values or {})
    attempt = Attempt(
        attempt_id=f"{number:032x}",
        task=f"RUN{house.schema}/{number}",
        dispatched_at_number=at,
        dispatched_at_ms=house.shared.runtime.clock.now_ms(),
        partitions=(partition,) if partition else (),
    )
    return Target(
        table=house.name("$.t"),
        format="iceberg",
        partition=partition,
        values=values or {},
        mode=mode,
        attempt=attempt,
        replaces=replaces,
    )


def stage(
    house: House, way: LossyWay, mode: Mode, number: int, at: int, **options: Any
) -> Callable[[], Published]:
    """Stage one row; how it is published."""
    session = house.shared.open().newSession()
    session.conf.set("spark.sql.catalog.default.uri", way.url)
    activate(session)
    tables, wanted = (
        IcebergTables(Room(session, house.shared.lake)),
        target(house, mode, number, at, **options),
    )
    frame = with_partition(session.range(number, number + 1), wanted.values)
    tables.open(wanted, frame.schema)
    staged = tables.stage(wanted, frame)
    return lambda: tables.publish(wanted, staged)


def publish(house: House, way: LossyWay, mode: Mode, number: int, at: int, lose: int) -> int:
    """Stage one row, and lose the answers to its publication; the number that publishes it."""
    publishing = stage(house, way, mode, number, at)
    way.to_lose = lose
    return publishing().number


@pytest.mark.parametrize(
    "mode", [Mode("append"), pytest.param(Mode("merge", ("id",)), marks=pytest.mark.interop)]
)
def test_a_publication_whose_answer_was_lost_is_found_and_made_once(
    house: House, mode: Mode
) -> None:
    with lossy_way(f"{house.shared.url}/iceberg") as way:
        head = publish(house, way, mode, 1, -1, 0)
        assert publish(house, way, mode, 2, head, 1) > head
        assert way.to_lose == 0
    assert house.rows("$.t") == [(1,), (2,)]


def test_a_publication_names_its_own_version_though_the_table_changes_before_the_answer(
    house: House,
) -> None:
    name = house.name("$.t")

    def number() -> int:
        table = IcebergCatalogs(house.shared.open()).load(name)
        assert table is not None
        return table.number

    def change() -> None:
        session = house.shared.open().newSession()
        session.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('by' = 'another')")

    with lossy_way(f"{house.shared.url}/iceberg") as way:
        publishing = stage(house, way, Mode("append"), 1, -1)
        before = number()
        way.meanwhile = change
        assert publishing().number == before + 1
        assert number() == before + 2


def test_rows_of_others_that_come_while_appended_rows_are_replaced_stay(house: House) -> None:
    with lossy_way(f"{house.shared.url}/iceberg") as way:
        days = {"ds": "2026-01-01"}
        publishing = stage(house, way, Mode("append"), 1, -1, values=days)
        head = publishing().number
        publishing = stage(house, way, Mode("append"), 2, head, values=days, replaces=True)
        session = house.shared.open().newSession()

        def write() -> None:
            session.sql(f"INSERT INTO {house.name('$.t')} VALUES (77, '2026-01-01')")

        way.first = write
        with pytest.raises(Conflict, match="cannot be changed as it is now"):
            publishing()
    assert [row[0] for row in house.rows("$.t")] == [1, 77]


@pytest.mark.parametrize("kind", ["iceberg", pytest.param("parquet", marks=pytest.mark.interop)])
def test_partitions_of_a_table_that_is_not_there_yet_are_made_side_by_side(
    house: House, kind: str
) -> None:
    house.project(SALES.replace("FORMAT", kind))
    days = [f"ds=2026-01-0{day}" for day in range(1, 5)]
    tasks = [house.lease("$.sales", day) for day in days]
    with ThreadPoolExecutor(4) as pool:
        outcomes = list(pool.map(house.carry_out, tasks))
    assert [each.error for each in outcomes] == [None] * 4
    assert all(each.status is TaskStatus.SUCCESS for each in outcomes)
    assert house.rows("$.sales") == [(row, day[3:]) for row in range(2) for day in days]
