"""`arco preview`: some rows of an Iceberg or Parquet table, read without Spark.

The API says where the files of the table are; they are read with the credentials of the caller, one after
the other and only until there are enough rows.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from arco.cli.flags import AsJson, InCatalog, Server, TableName
from arco.cli.flow.flags import EmbeddedAddress, command
from arco.client.object_name import ObjectName, parse_table
from arco.core.errors import Corrupt, Invalid, NotFound, Unavailable, Unsupported

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.catalog import Catalog
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.schema import Schema
    from pyiceberg.table import FileScanTask, Table

    from arco.client import Arco
    from arco.client.models import TableInfo

_EXAMPLES = """\
Examples:
  arco preview gold.daily_sales                the first 20 rows
  arco preview gold.daily_sales --limit 5 --columns day,amount
  arco preview gold.daily_sales --where "amount > 100 AND region = 'eu'"
  arco preview gold.daily_sales --partition 2026-01-05
  arco preview gold.daily_sales --as-of 2026-01-31T12:00:00Z
  arco preview gold.daily_sales --root .arco   without a running server

Rows are printed in the order of the files, and reading stops once there are
enough. --where takes an SQL expression, with column names spelled as in the
table; if no row matches, the whole table is read."""

_BATCH_ROWS = 10_000
_MAX_ROWS = 100_000

_SERVER, _OWN = Server(), EmbeddedAddress()

app = command("preview", "Show some rows of an Iceberg or Parquet table.", _EXAMPLES)


@app.default
def preview(
    name: TableName,
    /,
    *,
    where: Annotated[str | None, Parameter(metavar="EXPR")] = None,
    columns: Annotated[str | None, Parameter(metavar="A,B")] = None,
    limit: Annotated[int, Parameter(metavar="N")] = 20,
    partition: Annotated[str | None, Parameter(metavar="P")] = None,
    as_of: Annotated[str | None, Parameter(metavar="WHEN")] = None,
    catalog: InCatalog = None,
    server: Server = _SERVER,
    address: EmbeddedAddress = _OWN,
    json: AsJson = False,
    csv: Annotated[bool, Parameter(negative="", show_default=False)] = False,
) -> None:
    """Show some rows of an Iceberg or Parquet table.

    Parameters
    ----------
    where
        Only rows for which this SQL expression is true, such as "amount > 100".
    columns
        Only these columns, separated by commas.
    limit
        The maximum number of rows.
    partition
        Only this partition, such as 2026-01-05 or ds=2026-01-05/region=eu.
    as_of
        An earlier state: for Iceberg a snapshot id or a time, for Parquet a version number.
    server
        The running server.
    address
        Start a server for this command only.
    csv
        Print comma-separated values.
    """
    if json and csv:
        raise Invalid("--json and --csv exclude each other: give one of them")
    if not 1 <= limit <= _MAX_ROWS:
        raise Invalid(f"--limit takes 1 to {_MAX_ROWS:,} rows: to export a table, use an engine")
    from arco.cli.flow.connection import ArcoTarget, call_arco
    from arco.cli.rendering import print_csv, print_json, print_result

    table = parse_table(name, catalog)
    wanted = None if columns is None else tuple(each.strip() for each in columns.split(","))
    selection = RowSelection(where, wanted, limit, partition, as_of)
    rows = call_arco(
        ArcoTarget(server, address),
        lambda arco: read_rows(arco, table, selection, token=server.token()),
    )
    (print_json if json else print_csv if csv else print_result)(rows)


@dataclass(frozen=True)
class RowSelection:
    """Which rows and columns are shown."""

    where: str | None
    columns: tuple[str, ...] | None
    limit: int
    partition: str | None = None
    as_of: str | None = None

    def apply(self, batches: "Iterator[pa.RecordBatch]", schema: "pa.Schema") -> "pa.Table":
        """The first matching rows; no more batches are taken than are needed."""
        import pyarrow as pa

        self._check_columns(schema)
        selected = [self._of(schema.empty_table())]
        missing = self.limit
        for batch in batches:
            rows = _with_columns(pa.Table.from_batches([batch]), schema)
            rows = self._of(rows).slice(0, missing)
            selected.append(rows)
            missing -= rows.num_rows
            if missing == 0:
                break
        return pa.concat_tables(selected, promote_options="permissive")

    def _of(self, rows: "pa.Table") -> "pa.Table":
        if self.where is not None:
            from arco.query.session import matching_rows

            rows = matching_rows(rows, self.where)
        return rows if self.columns is None else rows.select(self.columns)

    def _check_columns(self, schema: "pa.Schema") -> None:
        unknown = [each for each in self.columns or () if each not in schema.names]
        if unknown:
            raise Invalid(f"there is no column {unknown[0]!r}: there are {_listed(schema)}")


def read_rows(
    arco: "Arco",
    name: ObjectName,
    selection: RowSelection,
    *,
    token: str | None,
) -> "pa.Table":
    """The selected rows of a table."""
    from pyiceberg.catalog import load_catalog

    from arco.client.transport import ICEBERG

    table = arco.tables.get(name)
    if table.kind == "VIEW":
        raise Unsupported(
            f"{table.full_name} is a view, and an engine has to run its query: read it with Spark or "
            f"another engine; `arco view show {table.full_name}` prints the query"
        )
    catalog = load_catalog(
        "arco",
        type="rest",
        uri=f"{arco.url}{ICEBERG}",
        warehouse=name.catalog,
        **({} if token is None else {"token": token}),
    )
    if table.format == "ICEBERG":
        return _iceberg_rows(catalog, name, selection)
    if table.format == "PARQUET":
        return _parquet_rows(arco, catalog, table, selection)
    raise Unsupported(
        f"{table.full_name} has the format {table.format}: rows are shown of Iceberg and Parquet "
        f"tables; read it with an engine"
    )


# Iceberg


def _iceberg_rows(
    catalog: "Catalog",
    name: ObjectName,
    selection: RowSelection,
) -> "pa.Table":
    from pyiceberg.expressions import AlwaysTrue
    from pyiceberg.io.pyarrow import ArrowScan, schema_to_pyarrow

    table = catalog.load_table((*name.schema, str(name.table)))
    snapshot_id = None if selection.as_of is None else _snapshot_id(table, selection.as_of)
    schema = table.scan(snapshot_id=snapshot_id).projection()
    skipping = _file_filter(selection.where, schema)
    scan = table.scan(snapshot_id=snapshot_id, row_filter=skipping)
    try:
        tasks = list(scan.plan_files())
    except (ValueError, NotImplementedError) as problem:
        if "equality delete" not in str(problem).lower():
            raise
        raise Unsupported(
            f"{name} has equality deletes, which this command cannot apply, so it would show deleted "
            f"rows: read it with Spark, or compact the table first"
        ) from problem
    if selection.partition is not None:
        tasks = _of_partition(table, tasks, selection.partition)
    enough = selection.limit if selection.where is None else None
    reader = ArrowScan(table.metadata, table.io, schema, AlwaysTrue(), limit=enough)

    def batches() -> "Iterator[pa.RecordBatch]":
        for task in tasks:  # one by one: the scan reads all the files that it is given
            yield from reader.to_record_batches([task])

    arrow_schema = schema_to_pyarrow(schema, include_field_ids=False)
    return _select(batches(), selection, lambda: arrow_schema, table.location())


def _file_filter(where: str | None, schema: "Schema") -> "BooleanExpression":
    """What PyIceberg understands of a condition, to skip files by; rows are judged by the SQL itself."""
    from pyiceberg.expressions import AlwaysTrue
    from pyiceberg.expressions.parser import parse
    from pyiceberg.expressions.visitors import bind
    from pyparsing import ParseException

    if where is None:
        return AlwaysTrue()
    try:
        parsed = parse(where)
        bind(schema, parsed, case_sensitive=True)
    except (ParseException, ValueError, TypeError):
        return AlwaysTrue()
    return parsed


def _snapshot_id(table: "Table", as_of: str) -> int:
    """The snapshot of an id, or the newest one at a time."""
    if as_of.lstrip("-").isdecimal():
        snapshot = table.snapshot_by_id(int(as_of))
    else:
        try:
            at = datetime.fromisoformat(as_of)
        except ValueError as problem:
            raise Invalid(
                f"--as-of takes a snapshot id or a time such as 2026-01-31T12:00:00Z, not {as_of!r}"
            ) from problem
        if at.tzinfo is None:
            raise Invalid(f"--as-of {as_of} needs a time zone, such as {as_of}Z")
        snapshot = table.snapshot_as_of_timestamp(int(at.timestamp() * 1000))
    if snapshot is None:
        newest = [str(each.snapshot_id) for each in table.snapshots()][-5:]
        has = f"its newest are {', '.join(reversed(newest))}" if newest else "it has none yet"
        raise NotFound(f"the table has no snapshot {as_of}: {has}")
    return snapshot.snapshot_id


def _of_partition(
    table: "Table", tasks: "list[FileScanTask]", partition: str
) -> "list[FileScanTask]":
    """The files of one partition, named as `arco partitions` names it."""
    specs, schema = table.specs(), table.schema()
    names = [each.name for each in table.spec().fields]
    if not names:
        raise Invalid("the table has no partitions: leave out --partition")
    wanted = _partition_values(partition, names)

    def values(task: "FileScanTask") -> dict[str, str]:
        spec = specs[task.file.spec_id]
        return {
            field.name: field.transform.to_human_string(
                schema.find_type(field.source_id), task.file.partition[at]
            )
            for at, field in enumerate(spec.fields)
        }

    chosen = [task for task in tasks if wanted.items() <= values(task).items()]
    if not chosen:
        raise NotFound(f"the table has no rows in the partition {partition}")
    return chosen


def _partition_values(partition: str, names: list[str]) -> dict[str, str]:
    if "=" not in partition:
        if len(names) > 1:
            pattern = "/".join(f"{each}=..." for each in names)
            raise Invalid(f"--partition needs the names of its columns, as in {pattern}")
        return {names[0]: partition}
    values: dict[str, str] = {}
    for part in partition.split("/"):
        name, _, value = part.partition("=")
        if name not in names:
            raise Invalid(f"the table is not partitioned by {name!r}, but by {', '.join(names)}")
        values[name] = value
    return values


# Parquet


def _parquet_rows(
    arco: "Arco",
    catalog: "Catalog",
    table: "TableInfo",
    selection: RowSelection,
) -> "pa.Table":
    import pyarrow as pa
    from pyarrow import parquet
    from pyiceberg.io import load_file_io

    if table.table_type != "MANAGED":
        raise Unsupported(
            f"{table.full_name} is external, so Arco does not know its files: read {table.location} "
            f"with an engine"
        )
    version = selection.as_of
    if version is not None and not version.isdecimal():
        raise Invalid(f"--as-of takes a version number for a Parquet table, not {version!r}")
    current = arco.tables.files_of(table.id, version=None if version is None else int(version))
    keys = sorted(current.files)
    if selection.partition is not None:
        names = list(_values_of(keys[0])) if keys else []
        if not names:
            raise Invalid("the table has no partitions: leave out --partition")
        wanted = _partition_values(selection.partition, names)
        keys = [key for key in keys if wanted.items() <= _values_of(key).items()]
        if not keys:
            raise NotFound(f"the table has no rows in the partition {selection.partition}")
    paths = [current.location + file.path for key in keys for file in current.files[key]]
    io = load_file_io(dict(catalog.properties), current.location)

    def batches() -> "Iterator[pa.RecordBatch]":
        for each in paths:
            with io.new_input(each).open() as file:
                yield from parquet.ParquetFile(file).iter_batches(batch_size=_BATCH_ROWS)

    def schema() -> "pa.Schema":
        if not paths:
            return pa.schema([(column.name, pa.string()) for column in table.columns])
        with io.new_input(paths[-1]).open() as file:
            stored = parquet.read_schema(file)
        # That file may be older than a column of the table: its type follows from other files.
        added = [column.name for column in table.columns if column.name not in stored.names]
        return pa.schema([*stored, *(pa.field(name, pa.null()) for name in added)])

    return _select(batches(), selection, schema, current.location)


def _values_of(key: str) -> dict[str, str]:
    from arco.events.partition_key import parse_partition_key

    return dict(parse_partition_key(key) or ())


# Rows


def _with_columns(rows: "pa.Table", schema: "pa.Schema") -> "pa.Table":
    """The columns of the table: null where a file is older than a column, none that was dropped since."""
    import pyarrow as pa

    for field in schema:
        if field.name not in rows.column_names:
            rows = rows.append_column(field, pa.nulls(rows.num_rows, field.type))
    return rows.select(schema.names)


def _select(
    batches: "Iterator[pa.RecordBatch]",
    selection: RowSelection,
    schema: "Callable[[], pa.Schema]",
    location: str,
) -> "pa.Table":
    """The selected rows; a file that cannot be read is an error that names it."""
    try:
        return selection.apply(batches, schema())
    except FileNotFoundError as problem:
        raise Corrupt(f"a file that the table names is missing: {problem}") from problem
    except OSError as problem:
        error = Unavailable(f"the files below {location} cannot be read: {problem}")
        error.add_note("They are read with your own credentials: check that you may read there.")
        raise error from problem


def _listed(schema: "pa.Schema") -> str:
    return ", ".join(schema.names)
