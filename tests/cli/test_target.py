import pytest
from hypothesis import given
from hypothesis import strategies as st

from arco.cli.target import (
    Kind,
    Target,
    read_catalog,
    read_parent_of_schemas,
    read_parent_of_tables,
    read_schema,
    read_table,
)
from arco.core.errors import Invalid

LEVELS = st.lists(st.sampled_from(["a", "b.c", 'q"q', "Ünï 1"]), min_size=1, max_size=4)


@pytest.mark.parametrize(
    ("text", "catalog", "meant"),
    [
        ("sales.orders", None, Target("default", ("sales",), "orders")),
        ("lake.raw.orders", None, Target("lake", ("raw",), "orders")),
        ("lake.raw.eu.orders", None, Target("lake", ("raw", "eu"), "orders")),
        ("raw.eu.orders", "default", Target("default", ("raw", "eu"), "orders")),
        ('raw."v1.2"', None, Target("default", ("raw",), "v1.2")),
    ],
)
def test_a_table_is_named_with_its_schema(text: str, catalog: str | None, meant: Target) -> None:
    assert read_table(text, catalog) == meant
    assert meant.kind is Kind.TABLE


@pytest.mark.parametrize(
    ("text", "catalog", "meant"),
    [
        ("sales", None, Target("default", ("sales",))),
        ("lake.raw", None, Target("lake", ("raw",))),
        ("lake.raw.eu", None, Target("lake", ("raw", "eu"))),
        ("raw.eu", "lake", Target("lake", ("raw", "eu"))),
    ],
)
def test_a_schema_of_one_part_is_in_default(text: str, catalog: str | None, meant: Target) -> None:
    assert read_schema(text, catalog) == meant
    assert meant.kind is Kind.SCHEMA


@given(levels=LEVELS)
def test_what_stands_before_the_last_dot_lists_what_lies_there(levels: list[str]) -> None:
    schema = Target("lake", tuple(levels))
    table = Target("lake", tuple(levels), "t.1")

    assert read_parent_of_tables(str(table.parent), None) == table.parent
    assert read_parent_of_schemas(str(schema.parent), None) == schema.parent


@pytest.mark.parametrize("catalog", [None, "lake"])
def test_without_a_parent_the_whole_catalog_is_meant(catalog: str | None) -> None:
    meant = Target(catalog or "default")

    assert read_parent_of_tables(None, catalog) == meant
    assert read_parent_of_schemas(None, catalog) == meant


def test_one_part_before_a_table_is_a_schema_and_before_a_schema_a_catalog() -> None:
    assert read_parent_of_tables("sales", None) == Target("default", ("sales",))
    assert read_parent_of_schemas("sales", None) == Target("sales")


@given(levels=LEVELS)
def test_a_full_name_reads_back(levels: list[str]) -> None:
    schema = Target("cat.alog", tuple(levels))
    table = Target("cat.alog", tuple(levels), 'ta"b.le')

    assert read_schema(str(schema), None) == schema
    assert read_table(str(table), None) == table


@pytest.mark.parametrize("text", ["a.b", "", ".", "a/b"])
def test_a_catalog_has_one_part(text: str) -> None:
    with pytest.raises(Invalid):
        read_catalog(text)


def test_a_table_without_its_schema_is_refused_with_what_to_write() -> None:
    with pytest.raises(Invalid, match=r"sales\.orders"):
        read_table("orders", None)
