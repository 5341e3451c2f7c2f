"""DataFusion sessions: plan and run queries over tables in memory. Only a worker imports this.

A session has no object store, so no statement can reach a file or an address. DataFusion refuses every
plan that changes something. Its errors are rewritten for the user who wrote the query.
"""

import re
from collections.abc import Mapping

import pyarrow as pa
from datafusion import DataFrame, RuntimeEnvBuilder, SessionConfig, SessionContext, SQLOptions
from datafusion.catalog import SchemaProvider, Table
from datafusion.expr import Analyze, Explain

from arco.core.errors import Invalid
from arco.query.filters import ColumnsOf, scans_of
from arco.query.limits import QueryLimits
from arco.query.protocol import QueryScans
from arco.query.result import to_portable

_CATALOG, _SCHEMA = "datafusion", "system"
_BATCH_ROWS = 8_192
_MAX_REASON_CHARS = 500

# Prefixes of DataFusion's messages; a message may have several.
_PREFIX = re.compile(
    r"^(DataFusion error|Error during planning|This feature is not implemented|Execution error|SQL error|"
    r"Schema error|Arrow error|Optimizer rule '[^']*' failed|External error|Compute error|"
    r"Invalid argument error|Parser error|type_coercion|caused by)(: |$)"
)
_PARSER = re.compile(r'^(?:ParserError|TokenizerError)\("(.*)"\)$')

_CHANGES = re.compile(r"^(DDL|DML|Statement) not supported")
_INTERNAL = re.compile(r"^Internal error|panicked| at .*\.rs:\d+")

_NO_TABLE = re.compile(r"^table '(?:datafusion\.)?(?:public\.)?(?P<name>[^']+)' not found")

_MEMORY = "the query needs more memory than is allowed: select less, or group by less"


class SqlSession:
    """Plans and runs queries, one at a time."""

    def __init__(
        self, limits: QueryLimits, schemas: Mapping[str, pa.Schema], filter_columns: ColumnsOf
    ) -> None:
        self._limits = limits
        self._schemas = schemas
        self._filter_columns = filter_columns
        self._empty = self._empty_tables()

    def plan(self, sql: str) -> QueryScans:
        """The tables that a query reads, or `Invalid`."""
        context = self._context()
        catalog = context.catalog(_CATALOG)
        schema = _RecordingSchema(self._empty)
        catalog.register_schema(_SCHEMA, schema)
        frame = self._parse(context, sql)
        tables = {name: self._schemas[name].names for name in sorted(schema.used)}
        try:
            plan = frame.optimized_logical_plan()
            scans = scans_of(sql, plan, _SCHEMA, tables, self._filter_columns)
            explains = isinstance(plan.to_variant(), Explain | Analyze)
        except BaseException as problem:
            raise Invalid(explain_failure(problem)) from problem
        return QueryScans(scans=scans, explains=explains)

    def run(self, sql: str, tables: Mapping[str, pa.Table]) -> pa.Table:
        """The result of a query over these tables, or `Invalid`."""
        context = self._context()
        self._register(context, tables)
        frame = self._parse(context, sql)
        try:
            return to_portable(self._collect(frame))
        except Invalid:
            raise
        except BaseException as problem:
            raise Invalid(explain_failure(problem)) from problem

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
        schema = context.catalog(_CATALOG).schema(_SCHEMA)
        return {name: schema.table(name) for name in self._schemas}

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
            .set("datafusion.execution.time_zone", "+00:00")  # all times of the catalog are UTC
        )
        runtime = (
            RuntimeEnvBuilder()
            .with_disk_manager_disabled()
            .with_greedy_memory_pool(self._limits.pool_bytes)
        )
        return SessionContext(config, runtime)

    def _parse(self, context: SessionContext, sql: str) -> DataFrame:
        options = (
            SQLOptions()
            .with_allow_ddl(allow=False)
            .with_allow_dml(allow=False)
            .with_allow_statements(allow=False)
        )
        try:
            return context.sql_with_options(sql, options)
        except BaseException as problem:  # a panic of DataFusion is not an Exception
            raise Invalid(explain_failure(problem)) from problem


class _RecordingSchema(SchemaProvider):
    """A schema of empty tables that records which of them a query uses."""

    def __init__(self, tables: Mapping[str, Table]) -> None:
        self._tables = tables
        self.used: set[str] = set()

    def table_names(self) -> set[str]:
        return set(self._tables)

    def table(self, name: str) -> Table | None:
        if name not in self._tables:
            return None
        self.used.add(name)
        return self._tables[name]

    def table_exist(self, name: str) -> bool:
        return name in self._tables


def matching_rows(rows: pa.Table, where: str) -> pa.Table:
    """The rows for which an SQL expression is true; column names are case sensitive."""
    exact_names = SessionConfig().set("datafusion.sql_parser.enable_ident_normalization", "false")
    try:
        frame = SessionContext(exact_names).from_arrow(rows, name="rows").filter(where)
        return frame.to_arrow_table().cast(rows.schema)
    except Exception as problem:
        raise Invalid(
            f"--where {where!r} cannot be evaluated: {explain_failure(problem)}; the columns are "
            f"{', '.join(rows.column_names)}"
        ) from problem


def explain_failure(problem: BaseException) -> str:
    """One sentence on why a query failed, without internals of DataFusion."""
    if not isinstance(problem, Exception):
        return "the query cannot be planned or run: write it in another way"
    if isinstance(problem, MemoryError):
        return _MEMORY
    line = _first_reason(str(problem))
    if line.startswith("Resources exhausted"):
        return _MEMORY
    if _INTERNAL.search(line) or not line:
        return "the query cannot be planned or run: write it in another way"
    return _reword(line)


def _reword(line: str) -> str:
    if (missing := _NO_TABLE.match(line)) is not None:
        return (
            f"there is no table {missing['name'][:200]}: SQL reads the tables of system, which SHOW TABLES "
            f"lists. To read your own tables, use `arco preview SCHEMA.TABLE` or an engine: `arco connect`"
        )
    if _CHANGES.match(line):
        return f"queries are read only: {line[:_MAX_REASON_CHARS]}"
    return line[:_MAX_REASON_CHARS]


def _first_reason(text: str) -> str:
    """The first line with content, without its prefixes."""
    for line in text.splitlines():
        reason = line.strip()
        while (match := _PREFIX.match(reason)) is not None:
            reason = reason[match.end() :]
        if reason:
            parser = _PARSER.match(reason)
            return parser.group(1) if parser is not None else reason
    return ""
