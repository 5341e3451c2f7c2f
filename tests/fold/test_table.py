"""Declarations that make no sense are refused when they are written, not when they are run."""

import pyarrow as pa
import pytest

from arco.core.errors import Invalid
from arco.fold.column import Column, Kind, columns
from arco.fold.table import Bucket, Keep, Rule, Table, by_name
from arco.fold.tier1 import TABLES, TIER1

ID, A, B, ORDER = Column("id"), Column("a"), Column("b"), Column("_order", Kind.INTEGER)
LAST_A = Rule(Keep.LAST, ("a",), ("_order",))


def declare(*rules: Rule, has: tuple[Column, ...], bucket: Bucket | None = None) -> Table:
    return Table("made_up", ("id",), has, rules, (), "id", bucket)


@pytest.mark.parametrize("keep", [Keep.MAX, Keep.MIN])
def test_the_largest_and_the_smallest_go_by_one_value(keep: Keep) -> None:
    with pytest.raises(Invalid, match=r"its own value"):
        Rule(keep, ("a",), ("_order",))
    with pytest.raises(Invalid, match=r"its own value"):
        Rule(keep, ("a", "b"))
    with pytest.raises(Invalid, match=r"its own value"):
        Rule(keep, ())


@pytest.mark.parametrize("keep", [Keep.LAST, Keep.FIRST])
def test_the_last_and_the_first_need_an_order(keep: Keep) -> None:
    with pytest.raises(Invalid, match=r"needs an order"):
        Rule(keep, ("a",))


def test_no_two_rules_share_an_order() -> None:
    with pytest.raises(Invalid, match=r"_order.* decided twice"):
        declare(LAST_A, Rule(Keep.FIRST, ("b",), ("_order",)), has=(ID, A, B, ORDER))


def test_no_column_is_decided_twice() -> None:
    with pytest.raises(Invalid, match=r"'a'.* decided twice"):
        declare(LAST_A, Rule(Keep.MAX, ("a",)), has=(ID, A, ORDER))


def test_a_key_is_not_decided_by_a_rule() -> None:
    with pytest.raises(Invalid, match=r"'id'.* decided twice"):
        declare(Rule(Keep.MAX, ("id",)), has=(ID,))


def test_every_column_has_a_rule() -> None:
    with pytest.raises(Invalid, match=r"'b'.* not both"):
        declare(LAST_A, has=(ID, A, B, ORDER))


def test_every_rule_has_its_columns() -> None:
    with pytest.raises(Invalid, match=r"'_order'.* not both"):
        declare(LAST_A, has=(ID, A))


def test_no_column_is_declared_twice() -> None:
    with pytest.raises(Invalid):
        declare(LAST_A, has=(ID, A, A, ORDER))


def test_a_bucket_follows_from_the_key() -> None:
    with pytest.raises(Invalid, match=r"follow from its key"):
        declare(LAST_A, has=(ID, A, ORDER), bucket=Bucket("a", 4))
    assert declare(LAST_A, has=(ID, A, ORDER), bucket=Bucket("id", 4)).bucket_of("x") in range(4)


def test_a_table_has_a_rule() -> None:
    with pytest.raises(Invalid, match=r"nothing to merge"):
        declare(has=(ID,))


@pytest.mark.parametrize("kind", [Kind.STRINGS, Kind.TEXTS])
def test_nothing_is_sorted_by_lists_and_maps(kind: Kind) -> None:
    tags = Column("tags", kind)
    with pytest.raises(Invalid, match=r"sorted by .'tags'"):
        declare(Rule(Keep.MAX, ("tags",)), has=(ID, tags))
    with pytest.raises(Invalid, match=r"sorted by .'tags'"):
        declare(Rule(Keep.LAST, ("a",), ("tags",)), has=(ID, A, tags))
    with pytest.raises(Invalid, match=r"sorted by .'id'"):
        declare(LAST_A, has=(Column("id", kind), A, ORDER))
    fine = declare(Rule(Keep.LAST, ("tags",), ("_order",)), has=(ID, tags, ORDER))
    assert fine.sort == ("id",)


def test_rows_lie_by_columns_that_are_there() -> None:
    with pytest.raises(Invalid, match=r"sorted by .'name'"):
        Table("made_up", ("id",), (ID, A, ORDER), (LAST_A,), (), "name")


def test_names_with_an_underscore_are_hidden() -> None:
    assert Column("_order").hidden
    assert not Column("order").hidden
    assert "_commit" not in TABLES.visible
    assert "_commit" in TABLES.schema.names
    assert set(TABLES.visible) == {n for n in TABLES.schema.names if not n.startswith("_")}


def test_columns_keep_the_order_in_which_they_are_written() -> None:
    assert [column.name for column in columns(b=Kind.STRING, a=Kind.TIME)] == ["b", "a"]


def test_every_kind_has_a_type_that_a_file_can_hold() -> None:
    assert {kind: str(kind.arrow()) for kind in Kind} == {
        Kind.STRING: "string",
        Kind.INTEGER: "int64",
        Kind.BOOLEAN: "bool",
        Kind.TIME: "timestamp[us, tz=UTC]",
        Kind.STRINGS: "list<item: string>",
        Kind.TEXTS: "map<string, string>",
        Kind.BYTES: "binary",
    }
    assert all(isinstance(kind.arrow(), pa.DataType) for kind in Kind)


def test_tables_are_known_by_their_names() -> None:
    assert by_name([TABLES]) == {"tables": TABLES}
    assert sorted(TIER1) == [
        *("catalogs", "columns", "objects", "places", "schema_versions", "schemas", "tables")
    ]
