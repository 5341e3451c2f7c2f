"""The fold: many rows with the same keys become one row each, by the rules of their table (law 7).

Everything is done by Arrow's own kernels on whole columns. One sort serves a rule; a row is chosen for
each key, and the rule's columns are taken from it together. Orders are total by declaration, so two rows
with the same order are the same row, and it does not matter which is taken.
"""

from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from arco.core.errors import Invalid
from arco.fold.table import Keep, Rule, Table

_TRUE = pa.array([True], pa.bool_())


def fold(table: Table, rows: pa.Table) -> pa.Table:
    """One row for each key, in the order in which files of this table are sorted."""
    rows = conform(table, rows)
    for name in table.key:
        if rows.column(name).null_count:
            raise Invalid(f"a row of {table.name} has no {name}, which is part of its key")
    if rows.num_rows <= 1:
        return rows
    first, *others = table.rules
    folded = rows.take(_pick(table, first, rows))
    for rule in others:
        picks = _pick(table, rule, rows)
        for name in (*rule.columns, *rule.order):
            at = table.schema.get_field_index(name)
            folded = folded.set_column(at, table.schema.field(at), rows.column(name).take(picks))
    return folded.take(_sorted(folded, _ascending((*table.sort, *table.key)))).combine_chunks()


def conform(table: Table, rows: pa.Table) -> pa.Table:
    """`rows` with exactly the table's columns: what an older file lacks is null."""
    if rows.schema.equals(table.schema):
        return rows
    columns = [
        rows.column(field.name).cast(field.type)
        if field.name in rows.column_names
        else pa.nulls(rows.num_rows, field.type)
        for field in table.schema
    ]
    return pa.table(columns, schema=table.schema)


def _pick(table: Table, rule: Rule, rows: pa.Table) -> pa.Array:
    """Which row decides, for each key in the order of the keys."""
    by = rule.order or rule.columns
    # Nulls sort to the end that never wins unless nothing else is there.
    ends = "at_start" if rule.keep in (Keep.LAST, Keep.MAX) else "at_end"
    order = _sorted(rows, [*_ascending(table.key), *((name, "ascending", ends) for name in by)])
    if rule.keep in (Keep.FIRST, Keep.MIN):
        return _starts(rows, table.key, order)
    return _ends(rows, table.key, order)


def _starts(rows: pa.Table, key: tuple[str, ...], order: pa.Array) -> pa.Array:
    """The first row of each run of equal keys, when the rows are taken in `order`."""
    return order.filter(pa.concat_arrays([_TRUE, _changes(rows, key, order)]))


def _ends(rows: pa.Table, key: tuple[str, ...], order: pa.Array) -> pa.Array:
    """The last row of each run of equal keys."""
    return order.filter(pa.concat_arrays([_changes(rows, key, order), _TRUE]))


def _changes(rows: pa.Table, key: tuple[str, ...], order: pa.Array) -> pa.Array:
    """For each row but the first, in `order`, whether its key differs from the one before."""
    differs = []
    for name in key:
        values = rows.column(name).combine_chunks().take(order)
        differs.append(pc.not_equal(values.slice(1), values.slice(0, len(values) - 1)))
    return reduce(pc.or_, differs)


def _ascending(names: tuple[str, ...]) -> list[tuple[str, str, str]]:
    return [(name, "ascending", "at_start") for name in names]


def _sorted(rows: pa.Table, keys: list[tuple[str, str, str]]) -> pa.Array:
    return pc.sort_indices(rows, sort_keys=keys)
