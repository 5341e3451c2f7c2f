"""Versions of partitions: a change in one partition leaves the versions of the others."""

from datetime import date
from io import BytesIO
from typing import Any

import fastavro
import pytest

from arco.catalog.publication import ATTEMPT_PROPERTY, DispatchedAttempt
from arco.core import json
from arco.core.errors import NotFound, Unavailable
from arco.core.json import Json
from arco.iceberg.partition_versions import AddedFile, IcebergVersions, value_format
from tests.iceberg.engine.sample_metadata import partition, point, snapshot, spec, update
from tests.iceberg.iceberg_setup import ELSEWHERE, IcebergSetup, begun, id_of
from tests.iceberg.publishing import attempt_at

BY_COUNTRY = spec(partition(3, "country"))
BY_BOTH = spec(partition(2, "placed_day", "day"), partition(3, "land"))
LIVE, DELETED = 1, 2

Entry = tuple[int, dict[str, Any], str]


def _type_of(value: object) -> Any:
    return ["null", {"type": "int", "logicalType": "date"} if isinstance(value, date) else "string"]


async def _write(setup: IcebergSetup, name: str, fields: list[Json], records: list[Any]) -> str:
    written = BytesIO()
    fastavro.writer(written, {"type": "record", "name": "r", "fields": fields}, records)
    await setup.outside.create(name, written.getvalue())
    return ELSEWHERE + name


async def _manifest(setup: IcebergSetup, name: str, *entries: Entry) -> str:
    """A manifest with files, each with its status, partition and path."""
    values = entries[0][1]
    inner: list[Json] = [{"name": key, "type": _type_of(each)} for key, each in values.items()]
    file: list[Json] = [
        {"name": "file_path", "type": "string"},
        {"name": "partition", "type": {"type": "record", "name": "p", "fields": inner}},
    ]
    fields: list[Json] = [
        {"name": "status", "type": "int"},
        {"name": "data_file", "type": {"type": "record", "name": "f", "fields": file}},
    ]
    records = [
        {"status": status, "data_file": {"file_path": path, "partition": values}}
        for status, values, path in entries
    ]
    return await _write(setup, name, fields, records)


async def _commit(
    setup: IcebergSetup,
    number: int,
    *manifests: str,
    files: int = 1,
    attempt: DispatchedAttempt | None = None,
) -> None:
    """A snapshot of these manifests, on `main`; the last of them is its own."""
    fields: list[Json] = [
        {"name": "manifest_path", "type": "string"},
        {"name": "partition_spec_id", "type": "int"},
        {"name": "added_files_count", "type": "int"},
        {"name": "existing_files_count", "type": "int"},
        {"name": "added_snapshot_id", "type": "long"},
    ]
    records = [
        {
            "manifest_path": each,
            "partition_spec_id": 0,
            "added_files_count": files,
            "existing_files_count": 0,
            "added_snapshot_id": number + 1 - len(manifests) + index,
        }
        for index, each in enumerate(manifests)
    ]
    manifest_list = await _write(setup, f"snap-{number}.avro", fields, records)
    metadata = (await setup.a.load("t")).metadata
    last_sequence_number = metadata["last-sequence-number"]
    assert isinstance(last_sequence_number, int)
    more: dict[str, Any] = {
        "manifest-list": manifest_list,
        "sequence-number": last_sequence_number + 1,
    }
    if attempt is not None:
        more["summary"] = {ATTEMPT_PROPERTY: json.encode(attempt).decode()}
    added = update("add-snapshot", snapshot=snapshot(number, **more))
    await setup.a.commit("t", added, point(number))


async def _with_table(partition_spec: dict[str, Json] | None) -> tuple[IcebergSetup, str]:
    setup = await begun()
    created_table = await setup.a.create("t", partition_spec=partition_spec, location=ELSEWHERE)
    return setup, id_of(created_table)


async def test_a_table_that_holds_nothing_has_no_version() -> None:
    setup, table_id = await _with_table(BY_COUNTRY)
    assert await setup.a.iceberg.versions.versions(table_id) == (None, {})
    with pytest.raises(NotFound):
        await setup.a.iceberg.versions.versions("01a1e0f6-9113-7475-bb94-e3fac6dcb4cd")


async def test_a_partition_changes_with_its_own_files_and_no_other_does() -> None:
    setup, table_id = await _with_table(BY_COUNTRY)
    fr, de = {"country": "FR"}, {"country": "DE"}
    one = await _manifest(setup, "m1", (LIVE, fr, "a"), (LIVE, de, "b"), (DELETED, de, "gone"))
    await _commit(setup, 1, one)
    version, first = await setup.a.iceberg.versions.versions(table_id)
    assert (version, set(first)) == ("1", {"country=FR", "country=DE"})
    two = await _manifest(setup, "m2", (LIVE, de, "c"))
    await _commit(setup, 2, one, two)
    version, second = await setup.a.iceberg.versions.versions(table_id)
    assert version == "2"
    assert second["country=FR"] == first["country=FR"]
    assert second["country=DE"] != first["country=DE"]
    # The same files in other manifests are the same data, in every process.
    three = await _manifest(setup, "m3", (LIVE, de, "c"), (LIVE, fr, "a"), (0, de, "b"))
    await _commit(setup, 3, three)
    assert (await setup.b.iceberg.versions.versions(table_id))[1] == second


async def test_files_that_no_attempt_has_published_are_known_by_their_snapshots() -> None:
    setup, table_id = await _with_table(BY_COUNTRY)
    fr, de = {"country": "FR"}, {"country": "DE"}
    ours = await _manifest(setup, "m1", (LIVE, fr, "a"), (LIVE, de, "b"))
    theirs = await _manifest(setup, "m2", (LIVE, de, "c"), (DELETED, fr, "gone"))
    await _commit(setup, 1, ours, attempt=attempt_at(setup, "x", 0, partitions=()))
    assert await setup.a.iceberg.versions.files_without_attempt(table_id) == []
    await _commit(setup, 2, ours, theirs)
    files = await setup.a.iceberg.versions.files_without_attempt(table_id)
    assert files == [AddedFile("country=DE", "c", 2)]


async def test_a_fence_changes_no_version() -> None:
    setup, table_id = await _with_table(BY_COUNTRY)
    await _commit(setup, 1, await _manifest(setup, "m1", (LIVE, {"country": "FR"}, "a")))
    before = await setup.a.iceberg.versions.versions(table_id)
    await setup.a.iceberg.fences.fence(table_id, attempt_at(setup, "x", 1), since=1)
    assert await setup.b.iceberg.versions.versions(table_id) == before


async def test_keys_are_made_of_columns_and_of_values_as_people_write_them() -> None:
    setup, table_id = await _with_table(BY_BOTH)
    values = {"placed_day": date(2026, 1, 15), "land": "a/b"}
    nothing = {"placed_day": date(2026, 1, 16), "land": None}
    await _commit(setup, 1, await _manifest(setup, "m1", (LIVE, values, "a"), (LIVE, nothing, "b")))
    versions = (await setup.a.iceberg.versions.versions(table_id))[1]
    assert set(versions) == {
        "country=a%2Fb/placed_at=2026-01-15",
        "country=null/placed_at=2026-01-16",
    }


@pytest.mark.parametrize(
    ("transform", "value", "text"),
    [
        ("identity", "x", "x"),
        ("identity", 7, "7"),
        ("identity", True, "true"),
        ("identity", date(2026, 1, 15), "2026-01-15"),
        ("identity", b"\x01\xff", "01ff"),
        ("identity", None, "null"),
        ("day", 20_468, "2026-01-15"),
        ("day", date(2026, 1, 15), "2026-01-15"),
        ("day", -1, "1969-12-31"),
        ("hour", 20_468 * 24 + 6, "2026-01-15T06"),
        ("month", 56 * 12, "2026-01"),
        ("month", -1, "1969-12"),
        ("hour", None, "null"),
    ],
)
def test_values_are_written_as_people_write_them(transform: str, value: object, text: str) -> None:
    write = value_format(transform)
    assert write is not None
    assert write(value) == text


@pytest.mark.parametrize("transform", ["bucket[16]", "truncate[4]", "void", "year", "unknown"])
def test_other_transforms_do_not_say_which_values_they_hold(transform: str) -> None:
    assert value_format(transform) is None


@pytest.mark.parametrize("by", [None, spec(partition(3, "c", "bucket[4]"))])
async def test_where_partitions_cannot_be_distinguished_the_table_version_counts(
    by: dict[str, Json] | None,
) -> None:
    setup, table_id = await _with_table(by)
    await _commit(setup, 1, await _manifest(setup, "m1", (LIVE, {"c": "x"}, "a")))
    assert await setup.a.iceberg.versions.versions(table_id) == ("1", {})


async def test_a_table_of_too_many_files_is_not_looked_into() -> None:
    setup, table_id = await _with_table(BY_COUNTRY)
    one = await _manifest(setup, "m1", (LIVE, {"country": "FR"}, "a"))
    await _commit(setup, 1, one, files=11)
    few = IcebergVersions(setup.a.context, most_files=10)
    assert await few.versions(table_id) == ("1", {})
    enough = IcebergVersions(setup.a.context, most_files=11)
    assert set((await enough.versions(table_id))[1]) == {"country=FR"}


async def test_a_manifest_is_read_once() -> None:
    setup, table_id = await _with_table(BY_COUNTRY)
    one = await _manifest(setup, "m1", (LIVE, {"country": "FR"}, "a"))
    await _commit(setup, 1, one)
    first = await setup.a.iceberg.versions.versions(table_id)
    await setup.outside.delete("m1")
    assert await setup.a.iceberg.versions.versions(table_id) == first
    with pytest.raises(Unavailable):
        await setup.b.iceberg.versions.versions(table_id)


async def test_bytes_that_are_no_manifest_are_trouble() -> None:
    setup, table_id = await _with_table(BY_COUNTRY)
    await setup.outside.create("bad", b"not avro")
    await _commit(setup, 1, f"{ELSEWHERE}bad")
    with pytest.raises(Unavailable):
        await setup.a.iceberg.versions.versions(table_id)
