"""Which partitions `arco partitions clear` means, and what it leaves whenever its process ends."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Protocol

import httpx2
import msgspec
import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import ForbiddenError
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from arco.catalog.publication import ATTEMPT_PROPERTY, DispatchedAttempt
from arco.cli.flow.partition_clearing import PartitionClearing, chosen_partitions
from arco.client import Arco
from arco.core.errors import AttemptFenced, Conflict, Denied, NotFound
from arco.core.runtime import system_runtime
from arco.flow.plan.table_state import TableState
from arco.flow.publish.wire import FilesStaged, StagedFile
from tests.cli.serving import Served, serving

DAYS = TableState(table_id="t", keys=("ds=2026-01-01", "ds=2026-01-02", "ds=2026-01-10"))
BOTH = TableState(table_id="t", keys=("ds=2026-01-01/region=eu", "ds=2026-01-01/region=us"))
WHOLE = TableState(table_id="t", keys=("",))
KEYS = ("ds=2026-01-01", "ds=2026-01-02")
PROJECT = """
from arco import Daily, asset

DAYS = Daily("ds", start="2026-01-01", end="2026-01-03")


@asset("silver.iceberg_days", partitions=DAYS, format="iceberg")
def iceberg_days(ctx, spark): ...


@asset("silver.parquet_days", partitions=DAYS, format="parquet")
def parquet_days(ctx, spark): ...
"""
_ids = count(1)


class ProcessEnded(BaseException):
    """The process that clears is killed."""


class DyingConnection(httpx2.HTTPTransport):
    """A connection of a process that is killed instead of sending its `last` change."""

    def __init__(self, last: int) -> None:
        super().__init__()
        self._changes_left = last

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        if request.method != "GET":
            self._changes_left -= 1
            if self._changes_left <= 0:
                raise ProcessEnded
        return super().handle_request(request)


class OvertakenConnection(httpx2.HTTPTransport):
    """A connection of a process that another attempt overtakes after its first change."""

    def __init__(self, table: "DaysTable") -> None:
        super().__init__()
        self._table = table
        self._is_first = True

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        answer = super().handle_request(request)
        if request.method != "GET" and self._is_first:
            self._is_first = False
            self._table.publish(KEYS[0], self._table.number())
        return answer


class DaysTable(Protocol):
    """A table with one row for each of two days, made by attempts of a run, which are recorded."""

    name: str
    table_id: str
    # How many changes a process that clears sends before the commit, itself included, and after it.
    changes: int

    def number(self) -> int: ...

    def publish(self, key: str, at: int) -> int:
        """Publish a row of a partition, as an attempt that was dispatched at a version."""

    def rows(self) -> dict[str, int]: ...


@dataclass
class IcebergDays:
    """The Iceberg table."""

    arco: Served
    name: str = "iceberg_days"
    changes: int = 1  # PyIceberg sends the commit
    table_id: str = ""

    def __post_init__(self) -> None:
        spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "ds"))
        schema = Schema(NestedField(1, "ds", StringType()), NestedField(2, "n", LongType()))
        self._catalog().create_table(("silver", self.name), schema, partition_spec=spec)
        self.table_id = str(self.arco.document("table", "show", f"silver.{self.name}")["id"])

    def _catalog(self) -> Catalog:
        return load_catalog("a", type="rest", uri=f"{self.arco.url}/iceberg", warehouse="default")

    def number(self) -> int:
        location = self._catalog().load_table(("silver", self.name)).metadata_location
        return int(location.rpartition("/")[2].partition("-")[0])

    def publish(self, key: str, at: int) -> int:
        table = self._catalog().load_table(("silver", self.name))
        attempt = msgspec.json.encode(attempt_at(key, at)).decode()
        row = pa.table({"ds": [key.removeprefix("ds=")], "n": [1]})
        try:
            table.append(row, snapshot_properties={ATTEMPT_PROPERTY: attempt})
        except ForbiddenError as fenced:
            raise AttemptFenced(str(fenced)) from fenced
        return self.number()

    def rows(self) -> dict[str, int]:
        days = self._catalog().load_table(("silver", self.name)).scan().to_arrow()
        return {
            f"ds={each['values']}": each["counts"] for each in days["ds"].value_counts().to_pylist()
        }


@dataclass
class ParquetDays:
    """The Parquet table."""

    arco: Served
    name: str = "parquet_days"
    changes: int = 2
    table_id: str = ""

    def __post_init__(self) -> None:
        columns = ("--column", "ds string", "--column", "n bigint")
        self.arco.done("table", "create", f"silver.{self.name}", "--format", "parquet", *columns)
        self.table_id = str(self.arco.document("table", "show", f"silver.{self.name}")["id"])

    def number(self) -> int:
        with Arco(self.arco.url) as arco:
            return arco.tables.files_of(self.table_id).number

    def publish(self, key: str, at: int) -> int:
        attempt = attempt_at(key, at)
        file = StagedFile(path=f"data/{attempt.attempt_id}/part-0.parquet", rows=1, bytes=4)
        folder = self.arco.root / "tenant=default" / "workspace=default" / "warehouse"
        path = folder / self.table_id / file.path
        path.parent.mkdir(parents=True)
        path.write_bytes(b"PAR1")
        staged = FilesStaged(
            table_id=self.table_id, attempt=attempt, mode="append", files={key: (file,)}
        )
        with Arco(self.arco.url) as arco:
            return arco.tables.publish_files(staged).number

    def rows(self) -> dict[str, int]:
        with Arco(self.arco.url) as arco:
            files = arco.tables.files_of(self.table_id).files
        return {key: sum(each.rows for each in some) for key, some in files.items()}


def attempt_at(key: str, number: int) -> DispatchedAttempt:
    """An attempt at a partition that was dispatched at a version."""
    attempt = next(_ids)
    return DispatchedAttempt(
        attempt_id=f"{attempt:032x}",
        task=f"run-{attempt}/days@{key}",
        dispatched_at_number=number,
        dispatched_at_ms=int(time.time() * 1000),
        partitions=(key,),
    )


def record_made(arco: Served, table_id: str, key: str, version: int) -> None:
    """What the coordinator records of a publication."""
    payload = {
        "table_id": table_id,
        "partition_key": key,
        "version": version,
        "materialization_id": f"attempt of {version}",
        "code_fingerprint": "older code",
    }
    event = {
        "event_type": "partition_completed",
        "event_version": 1,
        "occurred_at": datetime.now(UTC).isoformat(),
        "source": {"type": "test"},
        "payload": payload,
    }
    with Arco(arco.url) as client:
        assert client.events.send([event]).accepted == 1


def reasons(arco: Served, table: DaysTable) -> dict[str, str]:
    """Why each partition has to be made."""
    tasks = arco.document("plan", f"silver.{table.name}")["tasks"]
    return {each["partition"]: each["reason"] for each in tasks}


def clear_until(arco: Served, table: DaysTable, last: int) -> None:
    """Clear the first partition in a process that is killed instead of sending a change."""
    state = TableState(table_id=table.table_id, format=table.name.split("_")[0].upper())
    with Arco(arco.url, http=DyingConnection(last)) as client:
        clearing = PartitionClearing(
            client, system_runtime(), f"default.silver.{table.name}", state, None
        )
        with pytest.raises(ProcessEnded):
            clearing.clear(KEYS[:1])


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    (folder / "pipelines").mkdir()
    (folder / "pipelines" / "days.py").write_text(PROJECT)
    return folder


@pytest.fixture
def arco(tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    monkeypatch.chdir(project)
    with serving(tmp_path / "store") as served:
        served.done("schema", "create", "silver")
        yield served


@pytest.fixture(params=[IcebergDays, ParquetDays], ids=["iceberg", "parquet"])
def table(request: pytest.FixtureRequest, arco: Served) -> DaysTable:
    days: DaysTable = request.param(arco)
    for key in KEYS:
        record_made(arco, days.table_id, key, days.publish(key, days.number()))
    return days


def test_rows_and_state_of_a_cleared_partition_are_gone_and_of_others_stay(
    arco: Served, table: DaysTable
) -> None:
    assert reasons(arco, table) == dict.fromkeys(KEYS, "CODE_CHANGED")
    cleared = arco.document("partitions", "clear", f"silver.{table.name}", KEYS[0], "--yes")
    assert cleared["partitions"] == [KEYS[0]]
    assert cleared["version"] == table.number()
    assert table.rows() == {KEYS[1]: 1}
    assert reasons(arco, table) == {KEYS[0]: "MISSING", KEYS[1]: "CODE_CHANGED"}
    record_made(arco, table.table_id, KEYS[0], table.publish(KEYS[0], table.number()))
    assert reasons(arco, table) == dict.fromkeys(KEYS, "CODE_CHANGED")
    assert table.rows() == dict.fromkeys(KEYS, 1)


def test_an_attempt_that_ran_when_its_partition_was_cleared_publishes_nothing(
    arco: Served, table: DaysTable
) -> None:
    at = table.number()
    arco.done("partitions", "clear", f"silver.{table.name}", KEYS[0], "--yes")
    with pytest.raises(AttemptFenced):
        table.publish(KEYS[0], at)
    table.publish(KEYS[1], at)
    assert table.rows() == {KEYS[1]: 2}


def test_a_clearing_that_was_killed_before_its_commit_has_changed_nothing(
    arco: Served, table: DaysTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    if isinstance(table, IcebergDays):
        monkeypatch.setattr("pyiceberg.table.Table.delete", _end_process)
    clear_until(arco, table, 1)
    clear_until(arco, table, 2)
    assert table.rows() == dict.fromkeys(KEYS, 1)
    assert reasons(arco, table) == dict.fromkeys(KEYS, "CODE_CHANGED")


def _end_process(*_arguments: object, **_options: object) -> None:
    raise ProcessEnded


def test_a_clearing_that_was_killed_after_its_commit_is_recorded_by_the_next_plan(
    arco: Served, table: DaysTable
) -> None:
    clear_until(arco, table, table.changes + 1)
    assert table.rows() == {KEYS[1]: 1}
    query = "SELECT task_name, status FROM system.tasks"
    assert arco.document("sql", query, "--fresh")["rows"] == [["arco partitions clear", "RUNNING"]]
    for _ in range(2):
        assert reasons(arco, table) == {KEYS[0]: "MISSING", KEYS[1]: "CODE_CHANGED"}
    assert arco.document("sql", query, "--fresh")["rows"] == [["arco partitions clear", "SUCCESS"]]


def test_a_clearing_that_the_catalog_refuses_is_recorded_as_failed(
    arco: Served, table: DaysTable
) -> None:
    state = TableState(table_id=table.table_id, format=table.name.split("_")[0].upper())
    runtime = system_runtime()
    with Arco(arco.url, http=OvertakenConnection(table)) as client:
        clearing = PartitionClearing(client, runtime, f"default.silver.{table.name}", state, None)
        with pytest.raises((AttemptFenced, Conflict, Denied)):
            clearing.clear(KEYS[:1])
    assert table.rows() == {KEYS[0]: 2, KEYS[1]: 1}
    query = "SELECT status FROM system.tasks"
    assert arco.document("sql", query, "--fresh")["rows"] == [["FAILED"]]


@pytest.mark.parametrize(
    ("state", "named", "keys"),
    [
        (DAYS, ["ds=2026-01-02"], ("ds=2026-01-02",)),
        (DAYS, ["2026-01-02", "ds=2026-01-02"], ("ds=2026-01-02",)),
        (DAYS, ["2026-01-01..2026-01-02"], ("ds=2026-01-01", "ds=2026-01-02")),
        (DAYS, ["2026-01-02.."], ("ds=2026-01-02", "ds=2026-01-10")),
        (DAYS, ["all"], DAYS.keys),
        (BOTH, ["ds=2026-01-01/region=us"], ("ds=2026-01-01/region=us",)),
        (WHOLE, ["all"], ("",)),
    ],
)
def test_partitions_are_named_by_key_value_range_or_all(
    state: TableState, named: list[str], keys: tuple[str, ...]
) -> None:
    assert chosen_partitions("default.silver.orders", state, named) == keys


@pytest.mark.parametrize(
    ("state", "named", "message"),
    [
        (DAYS, "2026-01-03", "silver.orders has no partition '2026-01-03': it has 3, such as"),
        (BOTH, "eu", "has no partition 'eu'"),
        (TableState(), "all", "there is no table silver.orders"),
        (TableState(table_id="t"), "all", "no pipeline has made a partition"),
    ],
)
def test_what_does_not_exist_is_refused(state: TableState, named: str, message: str) -> None:
    with pytest.raises(NotFound, match=message):
        chosen_partitions("default.silver.orders", state, [named])
