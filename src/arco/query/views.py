"""The tables of `system` that are made of the catalog's tables of state.

Readers see what is live. Being alive is inherited, as everywhere: what lies in a dropped schema or catalog
is not there, though its own row was never dropped. What is gone but not yet forgotten stands in
`dropped_objects`, with the container that it went with.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from arco.fold.table import StateTable
from arco.fold.tier1 import (
    CATALOGS,
    COLUMNS,
    DOMAIN,
    OBJECTS,
    PLACES,
    SCHEMA_VERSIONS,
    SCHEMAS,
    TABLES,
)
from arco.fold.tier2 import (
    EDGE_OBSERVATIONS,
    EXECUTIONS_DOMAIN,
    LINEAGE_DOMAIN,
    LINEAGE_EDGES,
    QUARANTINE,
)
from arco.query.system_tables import (
    DOMAIN_COLUMN,
    DROPPED,
    OBSERVATIONS,
    STATISTICS,
    SYSTEM_SCHEMAS,
    DomainTable,
)


def join_columns(
    rows: pa.Table,
    others: pa.Table | None,
    key: Sequence[str],
    columns: Sequence[str],
    schema: pa.Schema,
) -> pa.Table:
    """`rows` with `columns` of the other row with the same key, null where there is none; as `schema`."""
    made = rows.select([name for name in schema.names if name not in columns])
    if others is None:
        found = [pa.nulls(rows.num_rows, schema.field(name).type) for name in columns]
    else:
        at = pc.index_in(_keys(rows, key), value_set=_keys(others, key))
        found = [others.column(name).take(at) for name in columns]
    for name, values in zip(columns, found, strict=True):
        made = made.append_column(schema.field(name), values)
    return made.select(schema.names)


def _keys(rows: pa.Table, key: Sequence[str]) -> pa.Array:
    """The key of each row as one text, with lengths before its parts, so that no two keys look alike."""
    *firsts, last = (rows.column(name).combine_chunks() for name in key)
    parts = [part for text in firsts for part in (pc.utf8_length(text).cast(pa.string()), text)]
    return pc.binary_join_element_wise(*parts, last, ":") if parts else last


class StateRows(Protocol):
    """Whoever has the folded rows of tables of state."""

    def rows(self, table: StateTable, domain: str = DOMAIN) -> pa.Table:
        """All rows of a table, dropped ones included."""


class CatalogViews:
    """The tables of `system` over one state of the catalog."""

    def __init__(self, states: StateRows) -> None:
        self._states = states
        self._makers: dict[str, Callable[[], pa.Table]] = {
            CATALOGS.name: lambda: self._own(CATALOGS),
            SCHEMAS.name: lambda: self._among(SCHEMAS, "schema_id", self._live_schemas()),
            TABLES.name: lambda: self._among(TABLES, "schema_id", self._live_schemas()),
            COLUMNS.name: lambda: self._among(COLUMNS, "table_id", self._live_tables()),
            SCHEMA_VERSIONS.name: lambda: self._among(
                SCHEMA_VERSIONS, "table_id", self._live_tables()
            ),
            OBJECTS.name: lambda: self._among(OBJECTS, "id", self._live_objects()),
            PLACES.name: lambda: self._among(PLACES, "table_id", self._live_tables()),
            "dropped_objects": self._dropped,
        }

    def make(self, name: str, *, with_statistics: bool = False) -> pa.Table:
        """One table of `system`; columns of statistics are null unless they are wanted."""
        rows = self._makers[name]()
        if name not in STATISTICS:
            return rows.select(SYSTEM_SCHEMAS[name].names)
        table, columns = STATISTICS[name]
        found = self._states.rows(table, EXECUTIONS_DOMAIN) if with_statistics else None
        return join_columns(rows, found, table.key, columns, SYSTEM_SCHEMAS[name])

    def _own(self, table: StateTable) -> pa.Table:
        """The rows that were not dropped themselves."""
        rows = self._states.rows(table)
        return rows.filter(pc.is_null(rows.column("dropped_at")))

    def _among(self, table: StateTable, column: str, live: pa.Array) -> pa.Table:
        """The rows that were not dropped and lie in something that is live."""
        rows = self._states.rows(table)
        wanted = pc.is_in(rows.column(column), value_set=live)
        if "dropped_at" in rows.column_names:
            wanted = pc.and_(wanted, pc.is_null(rows.column("dropped_at")))
        return rows.filter(wanted)

    def _live_tables(self) -> pa.Array:
        return _chunk(self.make(TABLES.name), "table_id")

    def _live_schemas(self) -> pa.Array:
        ends = self._ends()
        ids = self._states.rows(SCHEMAS).column("schema_id").to_pylist()
        return pa.array([each for each in ids if each not in ends], pa.string())

    def _live_objects(self) -> pa.Array:
        catalogs = _chunk(self._own(CATALOGS), "catalog_id")
        return pa.concat_arrays([catalogs, self._live_schemas(), self._live_tables()])

    def _ends(self) -> dict[str, tuple[object, str] | None]:
        """Of each container that is not there, since when, and which dropped one it went with.

        None for what outlived its container for a moment: that was forgotten, and this will be.
        """
        above: dict[str, str | None] = {}
        dropped: dict[str, object] = {}
        for row in self._states.rows(CATALOGS).select(["catalog_id", "dropped_at"]).to_pylist():
            above[row["catalog_id"]] = None
            dropped[row["catalog_id"]] = row["dropped_at"]
        names = ["schema_id", "parent_id", "catalog_id", "dropped_at"]
        for row in self._states.rows(SCHEMAS).select(names).to_pylist():
            above[row["schema_id"]] = row["parent_id"] or row["catalog_id"]
            dropped[row["schema_id"]] = row["dropped_at"]
        ends: dict[str, tuple[object, str] | None] = {}
        for each in above:
            at: str | None = each
            while at is not None and at in above and dropped[at] is None:
                at = above[at]
            if at is not None:
                ends[each] = (dropped[at], at) if at in above else None
        return ends

    def _dropped(self) -> pa.Table:
        ends = self._ends()
        parts = [
            self._ended(CATALOGS, ends, "CATALOG", "catalog_id", None),
            self._ended(SCHEMAS, ends, "SCHEMA", "schema_id", "parent_id"),
            self._ended(TABLES, ends, None, "table_id", "schema_id"),
            self._ended(COLUMNS, {}, "COLUMN", "column_id", "table_id"),
        ]
        return pa.concat_tables(parts)

    def _ended(
        self,
        table: StateTable,
        ends: dict[str, tuple[object, str] | None],
        kind: str | None,
        key: str,
        parent: str | None,
    ) -> pa.Table:
        """The rows that were dropped, or lie in what was."""
        rows = self._states.rows(table)
        gone = pc.is_valid(rows.column("dropped_at"))
        if parent is not None and ends:
            home = "schema_id" if table is TABLES else key
            inside = pc.is_in(rows.column(home), value_set=pa.array(list(ends), pa.string()))
            gone = pc.or_(gone, inside)
        found = []
        for row in rows.filter(gone).to_pylist():
            at, container = row["dropped_at"], None
            if at is None:
                end = ends[row["schema_id"]]
                if end is None:
                    continue
                at, container = end
            place = None if parent is None else row[parent] or row["catalog_id"]
            found.append((kind or row["kind"], row[key], row["name"], place, at, container))
        columns = list(zip(*found, strict=True)) or [()] * len(DROPPED)
        arrays = [
            pa.array(values, field.type) for values, field in zip(columns, DROPPED, strict=True)
        ]
        return pa.table(arrays, schema=DROPPED)


def _chunk(rows: pa.Table, name: str) -> pa.Array:
    column = rows.column(name)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


_EDGE = LINEAGE_EDGES.key


def make_event_view(
    name: str, needed: Sequence[DomainTable], states: StateRows, *, with_counts: bool
) -> pa.Table:
    """One table of `system`, of these tables of state; counts are null unless they are wanted."""
    schema = SYSTEM_SCHEMAS[name]
    if name == QUARANTINE.name:
        parts = [_of_domain(states, state) for state in needed]
        return pa.concat_tables([schema.empty_table(), *parts])
    if name == LINEAGE_EDGES.name:
        rows = states.rows(LINEAGE_EDGES, LINEAGE_DOMAIN)
        return _counted(rows, states, schema) if with_counts else _uncounted(rows, schema)
    [state] = needed
    return states.rows(state.table, state.domain).select(schema.names)


def _of_domain(states: StateRows, state: DomainTable) -> pa.Table:
    rows = states.rows(state.table, state.domain).select(state.table.visible)
    names = pa.repeat(pa.scalar(state.domain, pa.string()), rows.num_rows)
    return rows.add_column(0, DOMAIN_COLUMN, names)


def _counted(rows: pa.Table, states: StateRows, schema: pa.Schema) -> pa.Table:
    seen = states.rows(EDGE_OBSERVATIONS, LINEAGE_DOMAIN)
    counts = seen.group_by(list(_EDGE)).aggregate([([], "count_all")])
    counts = counts.rename_columns([*_EDGE, OBSERVATIONS])
    made = join_columns(rows, counts, _EDGE, (OBSERVATIONS,), schema)
    at = schema.get_field_index(OBSERVATIONS)
    return made.set_column(at, schema.field(at), made.column(at).fill_null(0))


def _uncounted(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    return join_columns(rows, None, _EDGE, (OBSERVATIONS,), schema)
