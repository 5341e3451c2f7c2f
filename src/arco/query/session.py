"""Sessions of DataFusion: what a query needs, and its answer. Only a worker imports this.

There is no object store behind a session, so no statement can reach a file or an address. A plan that
changes anything is refused by DataFusion itself, whatever the words were.
"""

from collections.abc import Mapping

import pyarrow as pa
from datafusion import DataFrame, RuntimeEnvBuilder, SessionConfig, SessionContext, SQLOptions
from datafusion.catalog import SchemaProvider, Table
from datafusion.expr import Analyze, Explain

from arco.core.errors import Invalid
from arco.query.filters import ColumnsOf, scans_of
from arco.query.limits import Limits
from arco.query.plain import plain
from arco.query.reason import reason_of
from arco.query.wire import Needs

_CATALOG, _SCHEMA = "datafusion", "system"
_BATCH_ROWS = 8_192


class Session:
    """Plans and runs queries over given tables, one at a time."""

    def __init__(
        self, limits: Limits, schemas: Mapping[str, pa.Schema], filtered: ColumnsOf
    ) -> None:
        self._limits = limits
        self._schemas = schemas
        self._filtered = filtered
        self._empty = self._empty_tables()

    def plan(self, sql: str) -> Needs:
        """What a query reads, or `Invalid`."""
        context = self._context()
        catalog = context.catalog(_CATALOG)
        spy = _Spy(self._empty)
        catalog.register_schema(_SCHEMA, spy)
        frame = self._ask(context, sql)
        tables = {name: self._schemas[name].names for name in sorted(spy.seen)}
        try:
            plan = frame.optimized_logical_plan()
            scans = scans_of(sql, plan, _SCHEMA, tables, self._filtered)
            explains = isinstance(plan.to_variant(), Explain | Analyze)
        except BaseException as problem:
            raise Invalid(reason_of(problem)) from problem
        return Needs(scans=scans, explains=explains)

    def run(self, sql: str, tables: Mapping[str, pa.Table]) -> pa.Table:
        """The result of a query over these tables, or `Invalid`."""
        context = self._context()
        self._register(context, tables)
        frame = self._ask(context, sql)
        try:
            return plain(self._collect(frame))
        except Invalid:
            raise
        except BaseException as problem:
            raise Invalid(reason_of(problem)) from problem

    def _register(self, context: SessionContext, tables: Mapping[str, pa.Table]) -> None:
        for name, empty in self._empty.items():
            if name in tables:
                batches = tables[name].to_batches(max_chunksize=_BATCH_ROWS)
                context.register_record_batches(name, [batches or self._no_batches(name)])
            else:
                context.register_table(name, empty)

    def _empty_tables(self) -> dict[str, Table]:
        context = self._context()
        for name in self._schemas:
            context.register_record_batches(name, [self._no_batches(name)])
        found = context.catalog(_CATALOG).schema(_SCHEMA)
        return {name: found.table(name) for name in self._schemas}

    def _no_batches(self, name: str) -> list[pa.RecordBatch]:
        return [pa.RecordBatch.from_pylist([], schema=self._schemas[name])]

    def _collect(self, frame: DataFrame) -> pa.Table:
        batches: list[pa.RecordBatch] = []
        rows = size_bytes = 0
        for each in frame.execute_stream():
            batch = each.to_pyarrow()
            rows += batch.num_rows
            size_bytes += batch.nbytes
            if rows > self._limits.rows:
                raise Invalid(f"the result has more than {self._limits.rows} rows: add a LIMIT")
            if size_bytes > self._limits.result_bytes:
                raise Invalid(
                    f"the result has more than {self._limits.result_bytes} bytes: "
                    "select fewer columns, or add a LIMIT"
                )
            batches.append(batch)
        schema = batches[0].schema if batches else frame.schema()
        return pa.Table.from_batches(batches, schema)

    def _context(self) -> SessionContext:
        config = (
            SessionConfig()
            .with_default_catalog_and_schema(_CATALOG, _SCHEMA)
            .with_information_schema(enabled=True)
            .with_batch_size(_BATCH_ROWS)
            .set("datafusion.execution.time_zone", "+00:00")  # as all times of the catalog
        )
        runtime = (
            RuntimeEnvBuilder()
            .with_disk_manager_disabled()
            .with_greedy_memory_pool(self._limits.pool_bytes)
        )
        return SessionContext(config, runtime)

    def _ask(self, context: SessionContext, sql: str) -> DataFrame:
        options = (
            SQLOptions()
            .with_allow_ddl(allow=False)
            .with_allow_dml(allow=False)
            .with_allow_statements(allow=False)
        )
        try:
            return context.sql_with_options(sql, options)
        except BaseException as problem:  # a panic of the library is not an Exception
            raise Invalid(reason_of(problem)) from problem


class _Spy(SchemaProvider):
    """A schema of empty tables that notes which of them are asked for."""

    def __init__(self, tables: Mapping[str, Table]) -> None:
        self._tables = tables
        self.seen: set[str] = set()

    def table_names(self) -> set[str]:
        return set(self._tables)

    def table(self, name: str) -> Table | None:
        if name not in self._tables:
            return None
        self.seen.add(name)
        return self._tables[name]

    def table_exist(self, name: str) -> bool:
        return name in self._tables
