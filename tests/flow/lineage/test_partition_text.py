from collections.abc import Iterable

import pytest

from arco.flow.lineage.partition_text import (
    NULL,
    keys_from_listing,
    keys_from_tasks,
    split_partition_folders,
)


def listing(*rows: str) -> str:
    return "\n".join(f"ListingPartition([{row}],1,<iterator>)" for row in rows)


def tasks(*data: str) -> str:
    tasks_text = (
        f"BaseFileScanTask{{file=/x, partition_data=PartitionData{{{each}}}, residual=true}}"
        for each in data
    )
    return f"[{', '.join(tasks_text)}]"


@pytest.mark.parametrize(
    ("rows", "fields", "keys"),
    [
        (("20455", "20454"), [("ds", "date")], ("ds=2026-01-01", "ds=2026-01-02")),
        (("1767225600000000",), [("at", "timestamp")], ("at=2026-01-01 00:00:00",)),
        (("eu,20454",), [("region", "string"), ("ds", "date")], ("ds=2026-01-01/region=eu",)),
        (("a,b",), [("name", "string")], ("name=a,b",)),
        (("a,b,1",), [("name", "string"), ("n", "integer")], ()),  # the comma is ambiguous
        (("null",), [("ds", "date")], (f"ds={NULL}",)),
        (("eu", "null"), [("region", "string")], ()),  # null and the string are printed alike
        ([str(at) for at in range(10_001)], [("n", "integer")], ()),  # too many
    ],
)
def test_keys_from_the_partitions_of_a_file_scan(
    rows: Iterable[str], fields: list[tuple[str, str]], keys: tuple[str, ...]
) -> None:
    assert keys_from_listing(listing(*rows), fields) == keys


def test_the_largest_number_of_partitions_is_kept() -> None:
    assert len(keys_from_listing(listing(*map(str, range(10_000))), [("n", "integer")])) == 10_000


def test_identity_and_transforms_are_formatted_as_in_iceberg() -> None:
    types = [
        "struct<1000: ds: optional date, 1001: at_month: optional int, 1002: r: optional string>"
    ]
    specs = ["[\n  1000: ds: identity(4)\n  1001: at_month: month(5)\n  1002: r: identity(6)\n]"]
    partition_keys = keys_from_tasks(tasks("ds=20454, at_month=672, r=eu"), types, specs)
    assert partition_keys == ("at_month=2026-01/ds=2026-01-01/r=eu",)


def test_hours_and_years_of_iceberg() -> None:
    types = ["struct<1000: at_hour: optional int, 1001: at_year: optional int>"]
    specs = ["[\n  1000: at_hour: hour(5)\n  1001: at_year: year(6)\n]"]
    partition_keys = keys_from_tasks(tasks("at_hour=490896, at_year=56"), types, specs)
    assert partition_keys == ("at_hour=2026-01-01-00/at_year=2026",)


def test_files_of_one_partition_are_one_key_and_those_without_have_none() -> None:
    types, specs = ["struct<1000: ds: optional date>"], ["[\n  1000: ds: identity(4)\n]"]
    assert keys_from_tasks(tasks("ds=20454", "ds=20454"), types, specs) == ("ds=2026-01-01",)
    assert keys_from_tasks(tasks("", ""), ["struct<>"], ["[]"]) == ()


def test_an_ambiguous_value_of_iceberg_is_not_guessed_at() -> None:
    types, specs = ["struct<1000: r: optional string>"], ["[\n  1000: r: identity(4)\n]"]
    assert keys_from_tasks(tasks("r=a, b"), types, specs) == ()
    assert keys_from_tasks(tasks("r=eu", "r=null"), types, specs) == ()
    assert keys_from_tasks(tasks("r=x, r=us"), types, specs) == ()


def test_folders_of_partitions_are_no_part_of_a_dataset() -> None:
    split_paths = split_partition_folders(
        ["s3a://b/t/ds=2026-01-01/r=eu", "s3a://b/t/ds=2026-01-02/r=us/"]
    )
    assert split_paths == (("s3a://b/t",), ("ds=2026-01-01/r=eu", "ds=2026-01-02/r=us"))


def test_escaped_folder_names_are_decoded() -> None:
    assert split_partition_folders(["/t/h=2026-01-01 05%3A00"]) == (
        ("/t",),
        ("h=2026-01-01 05:00",),
    )
    assert split_partition_folders(["/t/a%3Db=c%2Fd=e"]) == (("/t",), ("a%3Db=c%2Fd=e",))


def test_folders_that_name_a_column_twice_give_no_partition() -> None:
    assert split_partition_folders(["/t/a=1", "/t/a=1/a=2"]) == (("/t",), ())


def test_one_file_is_a_dataset_and_several_are_their_folder() -> None:
    assert split_partition_folders(["file:/d/rates.csv"]) == (("file:/d/rates.csv",), ())
    assert split_partition_folders(["file:/d/a.parquet", "file:/d/b.snappy.parquet"]) == (
        ("file:/d",),
        (),
    )
