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


def test_days_are_told_as_dates() -> None:
    found = keys_from_listing(listing("20455", "20454"), [("ds", "date")])
    assert found == ("ds=2026-01-01", "ds=2026-01-02")


def test_several_columns_make_one_key_in_the_order_of_their_names() -> None:
    found = keys_from_listing(listing("eu,20454"), [("region", "string"), ("ds", "date")])
    assert found == ("ds=2026-01-01/region=eu",)


def test_a_comma_in_the_only_value_is_part_of_it() -> None:
    assert keys_from_listing(listing("a,b"), [("name", "string")]) == ("name=a,b",)


def test_a_comma_among_several_values_is_not_guessed_at() -> None:
    assert keys_from_listing(listing("a,b,1"), [("name", "string"), ("n", "integer")]) == ()


def test_no_value_has_the_name_that_files_give_it() -> None:
    assert keys_from_listing(listing("null"), [("ds", "date")]) == (f"ds={NULL}",)


def test_no_value_and_the_text_null_are_written_alike_and_not_guessed_at() -> None:
    assert keys_from_listing(listing("eu", "null"), [("region", "string")]) == ()
    types, specs = ["struct<1000: r: optional string>"], ["[\n  1000: r: identity(4)\n]"]
    assert keys_from_tasks(tasks("r=eu", "r=null"), types, specs) == ()


def test_moments_are_told_as_such() -> None:
    found = keys_from_listing(listing("1767225600000000"), [("at", "timestamp")])
    assert found == ("at=2026-01-01 00:00:00",)


def test_more_partitions_than_are_told_are_told_not_at_all() -> None:
    rows = listing(*(str(at) for at in range(10_001)))
    assert keys_from_listing(rows, [("n", "integer")]) == ()
    assert len(keys_from_listing(listing(*map(str, range(10_000))), [("n", "integer")])) == 10_000


def test_icebergs_identity_and_transforms_are_told_as_iceberg_writes_them() -> None:
    types = [
        "struct<1000: ds: optional date, 1001: at_month: optional int, 1002: r: optional string>"
    ]
    specs = ["[\n  1000: ds: identity(4)\n  1001: at_month: month(5)\n  1002: r: identity(6)\n]"]
    found = keys_from_tasks(tasks("ds=20454, at_month=672, r=eu"), types, specs)
    assert found == ("at_month=2026-01/ds=2026-01-01/r=eu",)


def test_hours_and_years_of_iceberg() -> None:
    types = ["struct<1000: at_hour: optional int, 1001: at_year: optional int>"]
    specs = ["[\n  1000: at_hour: hour(5)\n  1001: at_year: year(6)\n]"]
    found = keys_from_tasks(tasks("at_hour=490896, at_year=56"), types, specs)
    assert found == ("at_hour=2026-01-01-00/at_year=2026",)


def test_files_of_one_partition_are_one_key_and_those_without_have_none() -> None:
    types, specs = ["struct<1000: ds: optional date>"], ["[\n  1000: ds: identity(4)\n]"]
    assert keys_from_tasks(tasks("ds=20454", "ds=20454"), types, specs) == ("ds=2026-01-01",)
    assert keys_from_tasks(tasks("", ""), ["struct<>"], ["[]"]) == ()


def test_a_value_of_iceberg_that_cannot_be_told_apart_is_not_guessed_at() -> None:
    types, specs = ["struct<1000: r: optional string>"], ["[\n  1000: r: identity(4)\n]"]
    assert keys_from_tasks(tasks("r=a, b"), types, specs) == ()
    assert keys_from_tasks(tasks("r=x, r=us"), types, specs) == ()


def test_folders_of_partitions_are_no_part_of_a_dataset() -> None:
    found = split_partition_folders(
        ["s3a://b/t/ds=2026-01-01/r=eu", "s3a://b/t/ds=2026-01-02/r=us/"]
    )
    assert found == (("s3a://b/t",), ("ds=2026-01-01/r=eu", "ds=2026-01-02/r=us"))


def test_what_folders_escape_is_told_as_it_is_meant() -> None:
    assert split_partition_folders(["/t/h=2026-01-01 05%3A00"]) == (
        ("/t",),
        ("h=2026-01-01 05:00",),
    )
    assert split_partition_folders(["/t/a%3Db=c%2Fd=e"]) == (("/t",), ("a%3Db=c%2Fd=e",))


def test_folders_that_name_a_column_twice_say_no_partition() -> None:
    assert split_partition_folders(["/t/a=1", "/t/a=1/a=2"]) == (("/t",), ())


def test_one_file_is_a_dataset_and_several_are_their_folder() -> None:
    assert split_partition_folders(["file:/d/rates.csv"]) == (("file:/d/rates.csv",), ())
    assert split_partition_folders(["file:/d/a.parquet", "file:/d/b.snappy.parquet"]) == (
        ("file:/d",),
        (),
    )
