import pytest
from hypothesis import given
from hypothesis import strategies as st

from arco.client.object_name import (
    ObjectName,
    ObjectType,
    parse_catalog,
    parse_parent_of_schemas,
    parse_parent_of_tables,
    parse_schema,
    parse_table,
)
from arco.core.errors import Invalid

LEVELS = st.lists(st.sampled_from(["a", "b.c", 'q"q', "Ünï 1"]), min_size=1, max_size=4)


@pytest.mark.parametrize(
    ("text", "catalog", "meant"),
    [
        ("sales.orders", None, ObjectName("default", ("sales",), "orders")),
        ("lake.raw.orders", None, ObjectName("lake", ("raw",), "orders")),
        ("lake.raw.eu.orders", None, ObjectName("lake", ("raw", "eu"), "orders")),
        ("raw.eu.orders", "default", ObjectName("default", ("raw", "eu"), "orders")),
        ('raw."v1.2"', None, ObjectName("default", ("raw",), "v1.2")),
    ],
)
def test_a_table_is_named_with_its_schema(
    text: str, catalog: str | None, meant: ObjectName
) -> None:
    assert parse_table(text, catalog) == meant
    assert meant.type is ObjectType.TABLE


@pytest.mark.parametrize(
    ("text", "catalog", "meant"),
    [
        ("sales", None, ObjectName("default", ("sales",))),
        ("lake.raw", None, ObjectName("lake", ("raw",))),
        ("lake.raw.eu", None, ObjectName("lake", ("raw", "eu"))),
        ("raw.eu", "lake", ObjectName("lake", ("raw", "eu"))),
    ],
)
def test_a_schema_of_one_part_is_in_default(
    text: str, catalog: str | None, meant: ObjectName
) -> None:
    assert parse_schema(text, catalog) == meant
    assert meant.type is ObjectType.SCHEMA


@given(levels=LEVELS)
def test_what_stands_before_the_last_dot_lists_what_lies_there(levels: list[str]) -> None:
    schema = ObjectName("lake", tuple(levels))
    table = ObjectName("lake", tuple(levels), "t.1")

    assert parse_parent_of_tables(str(table.parent), None) == table.parent
    assert parse_parent_of_schemas(str(schema.parent), None) == schema.parent


@pytest.mark.parametrize("catalog", [None, "lake"])
def test_without_a_parent_the_whole_catalog_is_meant(catalog: str | None) -> None:
    meant = ObjectName(catalog or "default")

    assert parse_parent_of_tables(None, catalog) == meant
    assert parse_parent_of_schemas(None, catalog) == meant


def test_one_part_before_a_table_is_a_schema_and_before_a_schema_a_catalog() -> None:
    assert parse_parent_of_tables("sales", None) == ObjectName("default", ("sales",))
    assert parse_parent_of_schemas("sales", None) == ObjectName("sales")


@given(levels=LEVELS)
def test_a_full_name_reads_back(levels: list[str]) -> None:
    schema = ObjectName("cat.alog", tuple(levels))
    table = ObjectName("cat.alog", tuple(levels), 'ta"b.le')

    assert parse_schema(str(schema), None) == schema
    assert parse_table(str(table), None) == table


@pytest.mark.parametrize("text", ["a.b", "", ".", "a/b"])
def test_a_catalog_has_one_part(text: str) -> None:
    with pytest.raises(Invalid):
        parse_catalog(text)


def test_a_table_without_its_schema_is_refused_with_what_to_write() -> None:
    with pytest.raises(Invalid, match=r"sales\.orders"):
        parse_table("orders", None)
