"""What every table of Tier 2 keeps to, whatever it is about."""

from collections import Counter

import pytest

from arco.fold.table import ColumnType, MergeRule, MergeStrategy, StateTable
from arco.fold.tier1 import TIER1
from arco.fold.tier2 import OCCURRED, QUARANTINE, TIER2

TABLES = list({id(t): t for domain in TIER2.values() for t in domain.values()}.values())
every_table = pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)


def kinds_of(table: StateTable) -> dict[str, ColumnType]:
    return {column.name: column.kind for column in table.columns}


@every_table
def test_a_row_keeps_the_newest_moment_of_its_events(table: StateTable) -> None:
    assert kinds_of(table)[OCCURRED] is ColumnType.TIME
    assert MergeRule(MergeStrategy.MAX, (OCCURRED,)) in table.rules


@every_table
def test_what_is_hidden_decides_something_and_what_decides_is_hidden(table: StateTable) -> None:
    orders = {name for rule in table.rules for name in rule.order}
    hidden = {column.name for column in table.columns if column.hidden}
    assert hidden == orders | {OCCURRED}


@every_table
def test_an_order_is_one_column_of_bytes(table: StateTable) -> None:
    ordered = [rule for rule in table.rules if rule.order]
    assert all(len(rule.order) == 1 and rule.columns for rule in ordered)
    assert {kinds_of(table)[rule.order[0]] for rule in ordered} <= {ColumnType.BYTES}


@every_table
def test_no_rule_keeps_the_first_row_of_a_group(table: StateTable) -> None:
    # The first of a group could only be determined from all events, and old ones were collected (P20).
    assert MergeStrategy.FIRST not in {rule.keep for rule in table.rules}


@every_table
def test_rows_of_one_bucket_and_of_one_parent_lie_together(table: StateTable) -> None:
    assert table.key[: len(table.parent)] == table.parent
    assert table.bucket is None or table.bucket.column == table.key[0]
    assert table.bucket is None or kinds_of(table)[table.key[0]] is ColumnType.STRING


@every_table
def test_a_key_is_something_that_readers_see_and_no_bytes(table: StateTable) -> None:
    assert set(table.key) < set(table.visible)
    assert ColumnType.BYTES not in {kinds_of(table)[name] for name in (*table.visible, *table.sort)}


def test_a_table_has_one_name_in_both_tiers_and_is_in_one_domain() -> None:
    names = Counter(name for domain in TIER2.values() for name in domain if name != QUARANTINE.name)
    assert set(names.values()) == {1}
    assert not set(names) & set(TIER1)


def test_every_domain_keeps_the_lines_that_it_could_not_fold() -> None:
    assert all(domain[QUARANTINE.name] is QUARANTINE for domain in TIER2.values())
    assert QUARANTINE.key == ("stream", "segment", "line")
