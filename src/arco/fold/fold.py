"""The fold: many rows with the same keys become one row each, by the rules of their table (law 7).

Everything is done by Arrow's own kernels on whole columns. For each rule a row is chosen for each key, and
the rule's columns are taken from it together. Orders are total by declaration, so two rows with the same
order are the same row, and it does not matter which is taken.
"""

import pyarrow as pa

from arco.core.errors import Invalid
from arco.fold.code import sort
from arco.fold.group import Groups
from arco.fold.table import Table
from arco.fold.winner import winners

# Names of columns, and for each key the row that they are taken from.
_Pick = tuple[tuple[str, ...], pa.Array]


def fold(table: Table, rows: pa.Table) -> pa.Table:
    """One row for each key, in the order in which files of this table are sorted."""
    rows = conform(table, rows)
    for name in table.key:
        if rows.column(name).null_count:
            raise Invalid(f"a row of {table.name} has no {name}, which is part of its key")
    if rows.num_rows <= 1:
        return rows
    return _taken(rows, _placed(table, rows, _picks(table, rows)))


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


def _picks(table: Table, rows: pa.Table) -> list[_Pick]:
    """The rows that decide, in the order of the keys. Any row of a key has the key itself."""
    groups = Groups.of(rows, table.key)
    if groups.distinct:
        return [(tuple(table.schema.names), groups.at)]
    picks: list[_Pick] = []
    for rule in table.rules:
        names = (*rule.columns, *rule.order, *(() if picks else table.key))
        picks.append((names, winners(table, rule, rows, groups)))
    return picks


def _placed(table: Table, rows: pa.Table, picks: list[_Pick]) -> list[_Pick]:
    """The picks in the order of a file; where its sorting leaves a choice, the keys decide."""
    if table.key[: len(table.sort)] == table.sort:
        return picks
    picked = {name: at for names, at in picks for name in names}
    labels = pa.table({name: rows.column(name).take(picked[name]) for name in table.sort})
    order = sort(labels, table.sort)
    return [(names, at.take(order)) for names, at in picks]


def _taken(rows: pa.Table, picks: list[_Pick]) -> pa.Table:
    """The rows, each column from the row that was picked for it."""
    if len(picks) == 1:
        return rows.take(picks[0][1]).combine_chunks()
    columns: dict[str, pa.ChunkedArray] = {}
    for names, at in picks:
        columns |= zip(names, rows.select(names).take(at).columns, strict=True)
    parts = [columns[name] for name in rows.schema.names]
    return pa.table(parts, schema=rows.schema).combine_chunks()
