"""Sessions of DataFusion: what a query needs, and its answer. Only a worker imports this.

There is no object store behind a session, so no statement can reach a file or an address. A plan that
changes anything is refused by DataFusion itself, whatever the words were.
"""

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.dataset as ds
from datafusion import DataFrame, RuntimeEnvBuilder, SessionConfig, SessionContext, SQLOptions
from datafusion.catalog import SchemaProvider, Table

from arco.core.errors import Invalid
from arco.query.limits import Limits
from arco.query.plain import plain
from arco.query.reason import reason_of

_CATALOG, _SCHEMA = "datafusion", "system"
_BATCH_ROWS = 8_192


class Session:
    """Plans and runs queries over given tables, one at a time."""

    def __init__(self, limits: Limits, schemas: Mapping[str, pa.Schema]) -> None:
        self._limits = limits
        self._schemas = schemas

    def plan(self, sql: str) -> list[str]:
        """The tables that a query reads, or `Invalid`."""
        context = self._context()
        spy = _Spy(self._schemas)
        context.catalog(_CATALOG).register_schema(_SCHEMA, spy)
        self._ask(context, sql)
        return sorted(spy.seen)

    def run(self, sql: str, tables: Mapping[str, pa.Table]) -> pa.Table:
        """The result of a query over these tables, or `Invalid`."""
        context = self._context()
        for name, schema in self._schemas.items():
            table = tables.get(name, schema.empty_table())
            batches = table.to_batches(max_chunksize=_BATCH_ROWS) or _no_batches(schema)
            context.register_record_batches(name, [batches])
        frame = self._ask(context, sql)
        try:
            return plain(self._collect(frame))
        except Invalid:
            raise
        except BaseException as problem:
            raise Invalid(reason_of(problem)) from problem

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

    def __init__(self, schemas: Mapping[str, pa.Schema]) -> None:
        self._schemas = schemas
        self.seen: set[str] = set()

    def table_names(self) -> set[str]:
        return set(self._schemas)

    def table(self, name: str) -> Table | None:
        if name not in self._schemas:
            return None
        self.seen.add(name)
        return Table(ds.dataset(self._schemas[name].empty_table()))

    def table_exist(self, name: str) -> bool:
        return name in self._schemas


def _no_batches(schema: pa.Schema) -> list[pa.RecordBatch]:
    return [pa.RecordBatch.from_pylist([], schema=schema)]
