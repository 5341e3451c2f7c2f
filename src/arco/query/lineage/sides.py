"""The two sides of edges: which table each of them is of, and which column, or the whole table.

A table without an id is external, and goes by the name that was seen; a column of one is told as
`table.column`. Where a column was told by its name alone, and elsewhere by name and id, it is one column.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from arco.events.lineage import ColumnEdge, table_edge_id
from arco.query.lineage.codes import Mask, mask

EXTERNAL = "external:"  # before the name of a table that has no id
EVERY_COLUMN = "*"  # as the name of a target: an influence on all of its columns
BY_ID, BY_NAME = "#", "."  # before what a column goes by

SOURCE, TARGET = "source", "target"


@dataclass(frozen=True)
class Side:
    """For each edge a table, and a column of it by id or name; null stands for all of them."""

    tables: pa.Array
    columns: pa.Array


def between_tables(rows: pa.Table) -> Mask:
    """Which edges are told from table to table, without columns."""
    none = pc.and_(
        pc.is_null(rows.column("source_column_id")), pc.is_null(rows.column("target_column_id"))
    )
    unknown = pc.equal(rows.column("transformation_type").fill_null("UNKNOWN"), "UNKNOWN")
    found = mask(pc.and_(none, unknown).combine_chunks())
    names = ("edge_id", "source_table_id", "source_name", "target_table_id", "target_name")
    doubtful = np.flatnonzero(found)
    columns = [column.to_pylist() for column in rows.select(names).take(doubtful).columns]
    for at, values in zip(doubtful, zip(*columns, strict=True), strict=True):
        edge_id, *sides = values
        edge = ColumnEdge(**dict(zip(names[1:], sides, strict=True)))
        found[at] = edge_id == table_edge_id(edge)
    return found


def sides_of(rows: pa.Table, tables_only: Mask) -> tuple[Side, Side]:
    """Both sides of every edge."""
    externals = _externals(rows, tables_only)
    source, target = (_side(rows, side, tables_only, externals) for side in (SOURCE, TARGET))
    return _with_ids(rows, source, target)


def _externals(rows: pa.Table, tables_only: Mask) -> set[str]:
    """The names of external tables."""
    known: set[str] = set()
    for side in (SOURCE, TARGET):
        told = np.logical_and(_has_no_table(rows, side), tables_only)
        known |= set(rows.column(f"{side}_name").filter(pa.array(told)).to_pylist())
    return known - {None}


def _has_no_table(rows: pa.Table, side: str) -> Mask:
    told = rows.column(f"{side}_table_id").combine_chunks().fill_null("")
    return mask(pc.equal(told, ""))


def _side(rows: pa.Table, side: str, tables_only: Mask, externals: set[str]) -> Side:
    table, column, name = (
        rows.column(f"{side}_{what}").combine_chunks() for what in ("table_id", "column_id", "name")
    )
    by_id = pc.binary_join_element_wise(BY_ID, column, "")
    by_name = pc.binary_join_element_wise(BY_NAME, name, "")
    whole = pc.and_(pc.is_null(column), pc.equal(name, EVERY_COLUMN).fill_null(fill_value=False))
    columns = pc.if_else(
        pc.or_(pa.array(tables_only), whole),
        pa.scalar(None, pa.string()),
        pc.coalesce(by_id, by_name),
    )
    without = np.flatnonzero(_has_no_table(rows, side))
    if not len(without):
        return Side(table, columns)
    tables, texts = table.to_pylist(), columns.to_pylist()
    for at in without:
        seen = name[at].as_py() or column[at].as_py() or ""
        own, rest = (seen, None) if tables_only[at] else _split(seen, externals)
        tables[at] = EXTERNAL + own
        texts[at] = None if rest is None else BY_NAME + rest
    return Side(pa.array(tables, pa.string()), pa.array(texts, pa.string()))


def _split(seen: str, externals: set[str]) -> tuple[str, str | None]:
    """The table and the column in a name; one whose table was not told stands for itself."""
    table = seen
    while "." in table:
        table = table.rpartition(".")[0]
        if table in externals:
            column = seen[len(table) + 1 :]
            return table, None if column == EVERY_COLUMN else column
    return seen, None


def _with_ids(rows: pa.Table, source: Side, target: Side) -> tuple[Side, Side]:
    """Columns by their ids wherever any edge knows the id of that name; the newest edge counts."""
    lacking = [mask(pc.starts_with(side.columns, BY_NAME)) for side in (source, target)]
    if not any(each.any() for each in lacking):
        return source, target
    known = _known_ids(rows)
    sides = []
    for side, lacks in zip((source, target), lacking, strict=True):
        columns = side.columns.to_pylist()
        for at in np.flatnonzero(lacks):
            column_id = known.get((side.tables[at].as_py(), columns[at][len(BY_NAME) :]))
            columns[at] = columns[at] if column_id is None else BY_ID + column_id
        sides.append(Side(side.tables, pa.array(columns, pa.string())))
    return sides[0], sides[1]


def _known_ids(rows: pa.Table) -> dict[tuple[str, str], str]:
    told = []
    for side in (SOURCE, TARGET):
        names = [f"{side}_{what}" for what in ("table_id", "name", "column_id")]
        columns = rows.select([*names, "last_observed_at"])
        told.append(columns.rename_columns(["table", "name", "id", "at"]))
    together = pa.concat_tables(told)
    known = together.filter(
        pc.and_(pc.is_valid(together.column("name")), pc.is_valid(together.column("id")))
    ).sort_by([("at", "ascending"), ("id", "ascending")])
    tables, names, ids, _ = (column.to_pylist() for column in known.columns)
    return dict(zip(zip(tables, names, strict=True), ids, strict=True))
