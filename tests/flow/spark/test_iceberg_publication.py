"""Publication when answers are lost, and by many attempts at the same time."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from arco.catalog.publication import ATTEMPT_PROPERTY, DispatchedAttempt
from arco.core.errors import Conflict
from arco.events.partition_key import format_partition_key
from arco.flow.coordinator.messages import TaskStatus
from arco.flow.coordinator.run_state import attempt_id_of
from arco.flow.define.options import Mode
from arco.flow.spark.engine import activate
from arco.flow.spark.iceberg_format import IcebergFormat
from arco.flow.spark.iceberg_table import IcebergCatalogs, IcebergTable
from arco.flow.spark.schema_evolution import add_partition_columns
from arco.flow.spark.table_format import (
    PublishedVersion,
    TableContext,
    WriteTarget,
    attempt_ids_until,
)
from tests.flow.spark.harness import Harness
from tests.interop.lossy_connection import LossyWay, lossy_way

SALES = """
@asset("$.sales", partitions=Daily("ds", start="2026-01-01"), format="FORMAT")
def sales(spark, ctx):
    return spark.range(2)
"""


def target(
    harness: Harness,
    mode: Mode,
    number: int,
    at: int,
    *,
    values: dict[str, str] | None = None,
    replaces: bool = False,
) -> WriteTarget:
    partition = format_partition_key(values or {})
    attempt = DispatchedAttempt(
        attempt_id=f"{number:032x}",
        task=f"RUN{harness.schema}/{number}",
        dispatched_at_number=at,
        dispatched_at_ms=harness.shared.runtime.clock.now_ms(),
        partitions=(partition,) if partition else (),
    )
    return WriteTarget(
        table=harness.name("$.t"),
        format="iceberg",
        partition=partition,
        values=values or {},
        mode=mode,
        attempt=attempt,
        replaces=replaces,
    )


def stage(
    harness: Harness, way: LossyWay, mode: Mode, number: int, at: int, **options: Any
) -> Callable[[], PublishedVersion]:
    """Stage one row; how it is published."""
    session = harness.shared.open().newSession()
    session.conf.set("spark.sql.catalog.default.uri", way.url)
    activate(session)
    tables, wanted = (
        IcebergFormat(TableContext(session, harness.shared.catalog)),
        target(harness, mode, number, at, **options),
    )
    frame = add_partition_columns(session.range(number, number + 1), wanted.values)
    tables.open(wanted, frame.schema)
    staged = tables.stage(wanted, frame)
    return lambda: tables.publish(wanted, staged)


def publish(harness: Harness, way: LossyWay, mode: Mode, number: int, at: int, lose: int) -> int:
    """Stage one row, and lose the answers to its publication; the number that publishes it."""
    publishing = stage(harness, way, mode, number, at)
    way.to_lose = lose
    return publishing().number


@pytest.mark.parametrize(
    "mode", [Mode("append"), pytest.param(Mode("merge", ("id",)), marks=pytest.mark.interop)]
)
def test_a_publication_whose_answer_was_lost_is_found_and_made_once(
    harness: Harness, mode: Mode
) -> None:
    with lossy_way(f"{harness.shared.url}/iceberg") as way:
        head = publish(harness, way, mode, 1, -1, 0)
        assert publish(harness, way, mode, 2, head, 1) > head
        assert way.to_lose == 0
    assert harness.rows("$.t") == [(1,), (2,)]


def test_a_publication_names_its_own_version_though_the_table_changes_before_the_answer(
    harness: Harness,
) -> None:
    name = harness.name("$.t")

    def number() -> int:
        table = IcebergCatalogs(harness.shared.open()).load(name)
        assert table is not None
        return table.number

    def change() -> None:
        session = harness.shared.open().newSession()
        session.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('by' = 'another')")

    with lossy_way(f"{harness.shared.url}/iceberg") as way:
        publishing = stage(harness, way, Mode("append"), 1, -1)
        before = number()
        way.meanwhile = change
        assert publishing().number == before + 1
        assert number() == before + 2


def test_rows_of_others_that_come_while_appended_rows_are_replaced_stay(harness: Harness) -> None:
    with lossy_way(f"{harness.shared.url}/iceberg") as way:
        days = {"ds": "2026-01-01"}
        publishing = stage(harness, way, Mode("append"), 1, -1, values=days)
        head = publishing().number
        publishing = stage(harness, way, Mode("append"), 2, head, values=days, replaces=True)
        session = harness.shared.open().newSession()

        def write() -> None:
            session.sql(f"INSERT INTO {harness.name('$.t')} VALUES (77, '2026-01-01')")

        way.first = write
        with pytest.raises(Conflict, match="cannot be changed now"):
            publishing()
    assert [row[0] for row in harness.rows("$.t")] == [1, 77]


@pytest.mark.parametrize("kind", ["iceberg", pytest.param("parquet", marks=pytest.mark.interop)])
def test_partitions_of_a_new_table_are_published_in_parallel(harness: Harness, kind: str) -> None:
    harness.project(SALES.replace("FORMAT", kind))
    days = [f"ds=2026-01-0{day}" for day in range(1, 5)]
    tasks = [harness.lease("$.sales", day) for day in days]
    with ThreadPoolExecutor(4) as pool:
        outcomes = list(pool.map(harness.execute, tasks))
    assert [each.error for each in outcomes] == [None] * 4
    assert all(each.status is TaskStatus.SUCCESS for each in outcomes)
    assert harness.rows("$.sales") == [(row, day[3:]) for row in range(2) for day in days]


def _attempt(number: int) -> DispatchedAttempt:
    return DispatchedAttempt(
        attempt_id=attempt_id_of("RUN", "t@1", number),
        task="RUN/t@1",
        dispatched_at_number=number,
        dispatched_at_ms=0,
    )


@dataclass(frozen=True)
class _Snapshot:
    """A snapshot as Iceberg's library shows it."""

    attempt: DispatchedAttempt

    def summary(self) -> dict[str, str]:
        return {ATTEMPT_PROPERTY: msgspec.json.encode(self.attempt).decode()}

    def parentId(self) -> None:  # noqa: N802 - as Java calls it
        return None


@dataclass(frozen=True)
class _Table:
    """A table of one snapshot."""

    snapshot: _Snapshot

    def currentSnapshot(self) -> _Snapshot:  # noqa: N802
        return self.snapshot


@pytest.mark.parametrize(
    ("publisher", "asker", "is_counted"), [(1, 1, True), (1, 2, True), (3, 2, False)]
)
def test_what_an_earlier_attempt_has_published_counts_and_what_a_later_one_has_does_not(
    publisher: int, asker: int, is_counted: bool
) -> None:
    table = IcebergTable(_Table(_Snapshot(_attempt(publisher))), None)
    publication = table.published(attempt_ids_until(_attempt(asker)))
    assert (publication is not None) is is_counted
