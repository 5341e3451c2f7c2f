"""`arco preview` shows the rows that a table has, and nothing else, against `arco up`."""

import csv
import io
import time
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import httpx2
import pyarrow as pa
import pytest
from pyarrow import parquet
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestWriterV2,
    write_manifest_list,
)
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import AddSnapshotUpdate, AssertTableUUID, SetSnapshotRefUpdate
from pyiceberg.typedef import Record

from tests.cli.serving import Served, serving

ROWS = pa.table(
    {
        "ds": [date(2026, 1, 1 + n % 3) for n in range(30)],
        "Name": [f"n{n}" for n in range(30)],
        "amount": list(range(30)),
    }
)


@pytest.fixture(scope="module")
def arco(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("up") / "store") as served:
        served.done("schema", "create", "sales")
        yield served


@pytest.fixture(scope="module")
def catalog(arco: Served) -> Catalog:
    return load_catalog("arco", type="rest", uri=f"{arco.url}/iceberg", warehouse="default")


@pytest.fixture(scope="module")
def days(catalog: Catalog) -> Table:
    """Three days in three files, of which one row was deleted later."""
    table = catalog.create_table("sales.days", ROWS.schema)
    with table.update_spec() as update:
        update.add_identity("ds")
    table.append(ROWS)
    table.delete("amount = 5")
    return table


def shown(arco: Served, *arguments: str) -> list[list[str]]:
    """The rows that are shown, without the names of the columns."""
    return list(csv.reader(io.StringIO(arco.done("preview", *arguments, "--csv"))))[1:]


def refused(arco: Served, *arguments: str) -> str:
    run = arco.arco("preview", *arguments)
    assert run.returncode != 0, run.stdout
    assert run.stdout == ""
    return run.stderr


def test_a_view_is_left_to_engines(arco: Served) -> None:
    sql = ("--sql", "SELECT 1 AS id")
    arco.done("view", "create", "sales.ones", "--column", "id bigint", *sql)
    assert "default.sales.ones is a view" in refused(arco, "sales.ones")


@pytest.mark.usefixtures("days")
def test_a_deleted_row_is_not_shown_and_the_limit_holds(arco: Served) -> None:
    assert len(shown(arco, "sales.days", "--limit", "7")) == 7
    amounts = {int(row[2]) for row in shown(arco, "sales.days", "--limit", "100")}
    assert amounts == set(range(30)) - {5}


@pytest.mark.usefixtures("days")
def test_rows_are_chosen_by_an_expression_and_by_partition(arco: Served) -> None:
    where = "amount > 20 AND (Name LIKE '%9' OR abs(amount) = 21)"
    rows = shown(arco, "sales.days", "--where", where, "--columns", "Name,amount")
    assert sorted(rows) == [["n21", "21"], ["n29", "29"]]
    for partition in ("2026-01-02", "ds=2026-01-02"):
        rows = shown(arco, "sales.days", "--partition", partition, "--limit", "50")
        assert {int(row[2]) for row in rows} == set(range(1, 30, 3))


def test_an_earlier_snapshot_is_shown_by_its_id_and_by_a_time(arco: Served, days: Table) -> None:
    first = days.snapshots()[0]
    everything = set(range(30))
    for as_of in (str(first.snapshot_id), _time(first.timestamp_ms)):
        rows = shown(arco, "sales.days", "--as-of", as_of, "--limit", "50")
        assert {int(row[2]) for row in rows} == everything
    assert str(first.snapshot_id) in refused(arco, "sales.days", "--as-of", "7")
    assert "has no snapshot" in refused(arco, "sales.days", "--as-of", "2020-01-01T00:00:00Z")


def _time(ms: int) -> str:
    return f"{pa.scalar(ms + 1, pa.timestamp('ms')).as_py().isoformat()}Z"


@pytest.mark.usefixtures("days")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--where", "nope = 1"), "the columns are ds, Name, amount"),
        (("--where", "amount >"), "--where 'amount >' cannot be evaluated"),
        (("--columns", "nope"), "there is no column 'nope': there are ds, Name, amount"),
        (("--partition", "2027-01-01"), "no rows in the partition 2027-01-01"),
        (("--partition", "x=1"), "not partitioned by 'x', but by ds"),
        (("--limit", "0"), "--limit takes 1 to"),
    ],
)
def test_what_cannot_be_shown_is_reported(
    arco: Served, arguments: tuple[str, ...], message: str
) -> None:
    assert message in refused(arco, "sales.days", *arguments)


def test_a_table_with_equality_deletes_is_not_shown_wrongly(arco: Served, catalog: Catalog) -> None:
    table = catalog.create_table("sales.deleted", ROWS.schema)
    table.append(ROWS)
    _delete_by_equality(table)
    assert "equality deletes" in refused(arco, "sales.deleted")


class _DeleteManifest(ManifestWriterV2):
    """PyIceberg writes no delete files of this kind, but other engines do."""

    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


def _delete_by_equality(table: Table) -> None:
    """A snapshot with one equality delete file; only its manifest is ever read here."""
    current, folder = table.metadata.current_snapshot(), f"{table.location()}/metadata"
    assert current is not None
    snapshot_id, sequence = current.snapshot_id + 1, current.sequence_number or 0
    manifest = table.io.new_output(f"{folder}/deletes.avro")
    with _DeleteManifest(table.spec(), table.schema(), manifest, snapshot_id, "null") as writer:
        deleted = DataFile.from_args(
            content=DataFileContent.EQUALITY_DELETES,
            file_path=f"{table.location()}/data/deletes.parquet",
            file_format=FileFormat.PARQUET,
            partition=Record(),
            record_count=1,
            file_size_in_bytes=1,
            equality_ids=[3],
        )
        writer.add(
            ManifestEntry.from_args(
                status=ManifestEntryStatus.ADDED, snapshot_id=snapshot_id, data_file=deleted
            )
        )
    listed = table.io.new_output(f"{folder}/snap-deletes.avro")
    with write_manifest_list(
        2, listed, snapshot_id, current.snapshot_id, sequence + 1, "null"
    ) as w:
        w.add_manifests([*current.manifests(table.io), writer.to_manifest_file()])
    snapshot = Snapshot.model_validate(
        {
            "snapshot-id": snapshot_id,
            "parent-snapshot-id": current.snapshot_id,
            "sequence-number": sequence + 1,
            "timestamp-ms": current.timestamp_ms + 1,
            "manifest-list": listed.location,
            "summary": Summary(Operation.OVERWRITE),
            "schema-id": table.schema().schema_id,
        }
    )
    main = {"action": "set-snapshot-ref", "ref-name": "main", "snapshot-id": snapshot_id}
    table.catalog.commit_table(
        table,
        (AssertTableUUID(uuid=table.metadata.table_uuid),),
        (
            AddSnapshotUpdate(snapshot=snapshot),
            SetSnapshotRefUpdate.model_validate({**main, "type": "branch"}),
        ),
    )


# Parquet


def _publish(arco: Served, table_id: str, attempt: str, day: str, rows: pa.Table) -> None:
    """A version of a plain Parquet table, as a worker publishes it."""
    folder = arco.root / "tenant=default" / "workspace=default" / "warehouse" / table_id
    path = f"data/{attempt}/part-0.parquet"
    (folder / path).parent.mkdir(parents=True)
    parquet.write_table(rows, folder / path)
    body: dict[str, Any] = {
        "table_id": table_id,
        "attempt": {
            "attempt_id": attempt,
            "task": f"run/sales.files@ds={day}",
            "dispatched_at_number": -1,
            "dispatched_at_ms": int(time.time() * 1000),
            "partitions": [f"ds={day}"],
        },
        "mode": "replace_partition",
        "files": {
            f"ds={day}": [
                {"path": path, "rows": rows.num_rows, "bytes": (folder / path).stat().st_size}
            ]
        },
    }
    url = f"{arco.url}/api/v1/tables/{table_id}/versions"
    answer = httpx2.post(url, json=body, trust_env=False)
    assert answer.status_code == 200, answer.text


def test_a_parquet_table_is_shown_also_as_it_was(arco: Served) -> None:
    table = ("table", "create", "sales.files", "--format", "parquet", "--column", "ds string")
    arco.done(*table)
    assert arco.done("preview", "sales.files") == "ds\n"
    table_id = str(arco.document("table", "show", "sales.files")["id"])
    first = pa.table({"ds": ["2026-01-01"] * 2, "n": [1, 2]})
    second = pa.table({"ds": ["2026-01-02"], "n": [3], "new": ["x"]})
    _publish(arco, table_id, "a" * 32, "2026-01-01", first)
    _publish(arco, table_id, "b" * 32, "2026-01-02", second)

    assert shown(arco, "sales.files", "--columns", "n,new") == [["1", ""], ["2", ""], ["3", "x"]]
    assert shown(arco, "sales.files", "--partition", "2026-01-02") == [["2026-01-02", "3", "x"]]
    assert shown(arco, "sales.files", "--columns", "new") == [[""], [""], ["x"]]
    assert shown(arco, "sales.files", "--where", "n > 2", "--columns", "n") == [["3"]]
    assert shown(arco, "sales.files", "--where", "new = 'x'", "--columns", "n") == [["3"]]
    assert shown(arco, "sales.files", "--as-of", "0", "--columns", "n") == [["1"], ["2"]]
    assert "no version 9: the newest is 1" in refused(arco, "sales.files", "--as-of", "9")


def test_a_missing_file_is_named(arco: Served) -> None:
    arco.done("table", "create", "sales.gone", "--format", "parquet", "--column", "ds string")
    table_id = str(arco.document("table", "show", "sales.gone")["id"])
    _publish(arco, table_id, "c" * 32, "2026-01-01", pa.table({"ds": ["2026-01-01"]}))
    (file,) = Path(arco.root).rglob(f"{'c' * 32}/part-0.parquet")
    file.unlink()
    message = refused(arco, "sales.gone")
    assert file.name in message, message


def test_a_table_of_another_format_is_refused(arco: Served) -> None:
    arco.done("table", "create", "sales.text", "--format", "csv", "--column", "a string")
    assert "has the format CSV" in refused(arco, "sales.text")
