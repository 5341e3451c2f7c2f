"""Declarations that make no sense are refused when they are written, not when they are run."""

import pyarrow as pa
import pytest

from arco.core.errors import Invalid
from arco.fold.table import (
    BucketSpec,
    ColumnType,
    MergeRule,
    MergeStrategy,
    StateColumn,
    StateTable,
    columns,
    tables_by_name,
)
from arco.fold.tier1 import TABLES, TIER1

ID, A, B = StateColumn("id"), StateColumn("a"), StateColumn("b")
ORDER = StateColumn("_order", ColumnType.INTEGER)
LAST_A = MergeRule(MergeStrategy.LAST, ("a",), ("_order",))
FIRST_B = MergeRule(MergeStrategy.FIRST, ("b",), ("_order",))


def largest(name: str) -> MergeRule:
    return MergeRule(MergeStrategy.MAX, (name,))


def declare(
    *rules: MergeRule, has: tuple[StateColumn, ...], bucket: BucketSpec | None = None
) -> StateTable:
    return StateTable("made_up", ("id",), has, rules, (), "id", bucket)


@pytest.mark.parametrize("keep", [MergeStrategy.MAX, MergeStrategy.MIN])
@pytest.mark.parametrize(
    ("names", "order"), [(("a",), ("_order",)), (("a", "b"), ()), ((), ())], ids=str
)
def test_the_largest_and_the_smallest_go_by_one_value(
    keep: MergeStrategy, names: tuple[str, ...], order: tuple[str, ...]
) -> None:
    with pytest.raises(Invalid, match=r"its own value"):
        MergeRule(keep, names, order)


@pytest.mark.parametrize("keep", [MergeStrategy.LAST, MergeStrategy.FIRST])
def test_the_last_and_the_first_need_an_order(keep: MergeStrategy) -> None:
    with pytest.raises(Invalid, match=r"needs an order"):
        MergeRule(keep, ("a",))


@pytest.mark.parametrize(
    ("rules", "has", "bucket", "message"),
    [
        ((LAST_A, FIRST_B), (ID, A, B, ORDER), None, r"_order.* more than one merge rule"),
        ((LAST_A, largest("a")), (ID, A, ORDER), None, r"'a'.* more than one merge rule"),
        ((largest("id"),), (ID,), None, r"'id'.* more than one merge rule"),
        ((LAST_A,), (ID, A, B, ORDER), None, r"'b'.* needs both"),
        ((LAST_A,), (ID, A), None, r"'_order'.* needs both"),
        ((LAST_A,), (ID, A, A, ORDER), None, r"needs both"),
        ((LAST_A,), (ID, A, ORDER), BucketSpec("a", 4), r"part of the key"),
        ((), (ID,), None, r"at least one merge rule"),
    ],
    ids=[
        *("order in two rules", "column in two rules", "key in a rule", "column without a rule"),
        *("rule without its order", "column twice", "bucket outside the key", "no rule"),
    ],
)
def test_a_declaration_that_cannot_be_folded_is_refused(
    rules: tuple[MergeRule, ...],
    has: tuple[StateColumn, ...],
    bucket: BucketSpec | None,
    message: str,
) -> None:
    with pytest.raises(Invalid, match=message):
        declare(*rules, has=has, bucket=bucket)


def test_a_bucket_is_one_of_so_many() -> None:
    table = declare(LAST_A, has=(ID, A, ORDER), bucket=BucketSpec("id", 4))
    assert table.bucket_of("x") in range(4)


@pytest.mark.parametrize("kind", [ColumnType.STRINGS, ColumnType.TEXTS])
def test_nothing_is_sorted_by_lists_and_maps(kind: ColumnType) -> None:
    tags = StateColumn("tags", kind)
    with pytest.raises(Invalid, match=r"sorted by .'tags'"):
        declare(largest("tags"), has=(ID, tags))
    with pytest.raises(Invalid, match=r"sorted by .'tags'"):
        declare(MergeRule(MergeStrategy.LAST, ("a",), ("tags",)), has=(ID, A, tags))
    with pytest.raises(Invalid, match=r"sorted by .'id'"):
        declare(LAST_A, has=(StateColumn("id", kind), A, ORDER))
    fine = declare(MergeRule(MergeStrategy.LAST, ("tags",), ("_order",)), has=(ID, tags, ORDER))
    assert fine.sort == ("id",)


def test_rows_are_sorted_by_declared_columns() -> None:
    with pytest.raises(Invalid, match=r"sorted by .'name'"):
        StateTable("made_up", ("id",), (ID, A, ORDER), (LAST_A,), (), "name")


def test_names_with_an_underscore_are_hidden() -> None:
    assert StateColumn("_order").hidden
    assert not StateColumn("order").hidden
    assert "_commit" not in TABLES.visible
    assert "_commit" in TABLES.schema.names
    assert set(TABLES.visible) == {n for n in TABLES.schema.names if not n.startswith("_")}


def test_columns_keep_the_order_in_which_they_are_written() -> None:
    assert [column.name for column in columns(b=ColumnType.STRING, a=ColumnType.TIME)] == ["b", "a"]


def test_every_kind_has_a_type_that_a_file_can_hold() -> None:
    assert {kind: str(kind.arrow()) for kind in ColumnType} == {
        ColumnType.STRING: "string",
        ColumnType.INTEGER: "int64",
        ColumnType.BOOLEAN: "bool",
        ColumnType.TIME: "timestamp[us, tz=UTC]",
        ColumnType.STRINGS: "list<item: string>",
        ColumnType.TEXTS: "map<string, string>",
        ColumnType.BYTES: "binary",
    }
    assert all(isinstance(kind.arrow(), pa.DataType) for kind in ColumnType)


def test_tables_are_known_by_their_names() -> None:
    assert tables_by_name([TABLES]) == {"tables": TABLES}
    assert sorted(TIER1) == [
        *("catalogs", "columns", "objects", "places", "schema_versions", "schemas", "tables")
    ]
