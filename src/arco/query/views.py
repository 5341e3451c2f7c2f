"""The tables of `system` that are made of state tables.

Tables of the catalog show what is live: an object in a dropped schema or catalog is not shown, though its
own row was never dropped. `dropped_objects` shows what is dropped and not yet removed by retention, and
the container that it was dropped with. Tables of events are shown as they are folded; observations of
an edge are counted if a query uses the count, and `quarantine` shows all domains.
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
    DROPPED_SCHEMA,
    OBSERVATION_COUNT,
    STATISTICS,
    SYSTEM_SCHEMAS,
    DomainTable,
)


class StateRows(Protocol):
    """The folded rows of state tables."""

    def rows(self, table: StateTable, domain: str = DOMAIN) -> pa.Table:
        """All rows of a table, including dropped ones."""


class CatalogViews:
    """Makes the tables of the catalog."""

    def __init__(self, states: StateRows) -> None:
        self._states = states
        self._makers: dict[str, Callable[[], pa.Table]] = {
            CATALOGS.name: lambda: self._not_dropped(CATALOGS),
            SCHEMAS.name: lambda: self._live_rows(SCHEMAS, "schema_id", self._live_schemas()),
            TABLES.name: lambda: self._live_rows(TABLES, "schema_id", self._live_schemas()),
            COLUMNS.name: lambda: self._live_rows(COLUMNS, "table_id", self._live_tables()),
            SCHEMA_VERSIONS.name: lambda: self._live_rows(
                SCHEMA_VERSIONS, "table_id", self._live_tables()
            ),
            OBJECTS.name: lambda: self._live_rows(OBJECTS, "id", self._live_objects()),
            PLACES.name: lambda: self._live_rows(PLACES, "table_id", self._live_tables()),
            "dropped_objects": self._dropped_objects,
        }

    def make(self, name: str, *, with_statistics: bool = False) -> pa.Table:
        """One table of `system`; statistics are null unless they are wanted."""
        rows = self._makers[name]()
        if name not in STATISTICS:
            return rows.select(SYSTEM_SCHEMAS[name].names)
        table, columns = STATISTICS[name]
        statistics = self._states.rows(table, EXECUTIONS_DOMAIN) if with_statistics else None
        return join_columns(rows, statistics, table.key, columns, SYSTEM_SCHEMAS[name])

    def _not_dropped(self, table: StateTable) -> pa.Table:
        """The rows that are not dropped themselves."""
        rows = self._states.rows(table)
        return rows.filter(pc.is_null(rows.column("dropped_at")))

    def _live_rows(self, table: StateTable, column: str, live: pa.Array) -> pa.Table:
        """The rows that are not dropped and whose `column` is among the `live` ids."""
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
        catalogs = _chunk(self._not_dropped(CATALOGS), "catalog_id")
        return pa.concat_arrays([catalogs, self._live_schemas(), self._live_tables()])

    def _ends(self) -> dict[str, tuple[object, str] | None]:
        """Of each container that is not live: when and with which container it was dropped.

        None if an ancestor is already removed by retention; the container will be removed next.
        """
        parents: dict[str, str | None] = {}
        dropped: dict[str, object] = {}
        for row in self._states.rows(CATALOGS).select(["catalog_id", "dropped_at"]).to_pylist():
            parents[row["catalog_id"]] = None
            dropped[row["catalog_id"]] = row["dropped_at"]
        names = ["schema_id", "parent_id", "catalog_id", "dropped_at"]
        for row in self._states.rows(SCHEMAS).select(names).to_pylist():
            parents[row["schema_id"]] = row["parent_id"] or row["catalog_id"]
            dropped[row["schema_id"]] = row["dropped_at"]
        ends: dict[str, tuple[object, str] | None] = {}
        for each in parents:
            at: str | None = each
            while at is not None and at in parents and dropped[at] is None:
                at = parents[at]
            if at is not None:
                ends[each] = (dropped[at], at) if at in parents else None
        return ends

    def _dropped_objects(self) -> pa.Table:
        ends = self._ends()
        parts = [
            self._dropped_rows(CATALOGS, ends, "CATALOG", "catalog_id", None),
            self._dropped_rows(SCHEMAS, ends, "SCHEMA", "schema_id", "parent_id"),
            self._dropped_rows(TABLES, ends, None, "table_id", "schema_id"),
            self._dropped_rows(COLUMNS, {}, "COLUMN", "column_id", "table_id"),
        ]
        return pa.concat_tables(parts)

    def _dropped_rows(
        self,
        table: StateTable,
        ends: dict[str, tuple[object, str] | None],
        kind: str | None,
        key: str,
        parent: str | None,
    ) -> pa.Table:
        """The rows that are dropped, or are in a dropped container."""
        rows = self._states.rows(table)
        is_dropped = pc.is_valid(rows.column("dropped_at"))
        if parent is not None and ends:
            home = "schema_id" if table is TABLES else key
            inside = pc.is_in(rows.column(home), value_set=pa.array(list(ends), pa.string()))
            is_dropped = pc.or_(is_dropped, inside)
        dropped = []
        for row in rows.filter(is_dropped).to_pylist():
            at, container = row["dropped_at"], None
            if at is None:
                end = ends[row["schema_id"]]
                if end is None:
                    continue
                at, container = end
            parent_id = None if parent is None else row[parent] or row["catalog_id"]
            dropped.append((kind or row["kind"], row[key], row["name"], parent_id, at, container))
        columns = list(zip(*dropped, strict=True)) or [()] * len(DROPPED_SCHEMA)
        arrays = [
            pa.array(values, field.type)
            for values, field in zip(columns, DROPPED_SCHEMA, strict=True)
        ]
        return pa.table(arrays, schema=DROPPED_SCHEMA)


def _chunk(rows: pa.Table, name: str) -> pa.Array:
    column = rows.column(name)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


_EDGE = LINEAGE_EDGES.key


def make_event_view(
    name: str, states_read: Sequence[DomainTable], states: StateRows, *, with_counts: bool
) -> pa.Table:
    """One table of events, made of these state tables; counts are null unless they are wanted."""
    schema = SYSTEM_SCHEMAS[name]
    if name == QUARANTINE.name:
        tables = [_with_domain(states, state) for state in states_read]
        return pa.concat_tables([schema.empty_table(), *tables])
    if name == LINEAGE_EDGES.name:
        rows = states.rows(LINEAGE_EDGES, LINEAGE_DOMAIN)
        return _with_observation_count(rows, states if with_counts else None, schema)
    [state] = states_read
    return states.rows(state.table, state.domain).select(schema.names)


def _with_domain(states: StateRows, state: DomainTable) -> pa.Table:
    rows = states.rows(state.table, state.domain).select(state.table.visible)
    names = pa.repeat(pa.scalar(state.domain, pa.string()), rows.num_rows)
    return rows.add_column(0, DOMAIN_COLUMN, names)


def _with_observation_count(
    edges: pa.Table, states: StateRows | None, schema: pa.Schema
) -> pa.Table:
    if states is None:
        return join_columns(edges, None, _EDGE, (OBSERVATION_COUNT,), schema)
    observations = states.rows(EDGE_OBSERVATIONS, LINEAGE_DOMAIN)
    counts = observations.group_by(list(_EDGE)).aggregate([([], "count_all")])
    counts = counts.rename_columns([*_EDGE, OBSERVATION_COUNT])
    counted = join_columns(edges, counts, _EDGE, (OBSERVATION_COUNT,), schema)
    at = schema.get_field_index(OBSERVATION_COUNT)
    return counted.set_column(at, schema.field(at), counted.column(at).fill_null(0))


def join_columns(
    rows: pa.Table,
    others: pa.Table | None,
    key: Sequence[str],
    columns: Sequence[str],
    schema: pa.Schema,
) -> pa.Table:
    """`rows` with `columns` of the row of `others` with the same key, or null; ordered as `schema`."""
    joined = rows.select([name for name in schema.names if name not in columns])
    if others is None:
        arrays = [pa.nulls(rows.num_rows, schema.field(name).type) for name in columns]
    else:
        at = pc.index_in(_keys(rows, key), value_set=_keys(others, key))
        arrays = [others.column(name).take(at) for name in columns]
    for name, values in zip(columns, arrays, strict=True):
        joined = joined.append_column(schema.field(name), values)
    return joined.select(schema.names)


def _keys(rows: pa.Table, key: Sequence[str]) -> pa.Array:
    """The key of each row as one text, with the lengths of its parts, so that no two keys collide."""
    *firsts, last = (rows.column(name).combine_chunks() for name in key)
    parts = [part for text in firsts for part in (pc.utf8_length(text).cast(pa.string()), text)]
    return pc.binary_join_element_wise(*parts, last, ":") if parts else last
