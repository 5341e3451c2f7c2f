"""Rows that fail a check, as a small table for the log of the attempt.

Values of columns that the catalog marks as PII are replaced by a mask inside Spark, so they are never
collected. Rows, columns, characters of a value and bytes of a table are bounded.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql.types import BinaryType, DataType

from arco.flow.worker.ports import CatalogTable

MASK = "***"
MAX_ROWS = 20
MAX_COLUMNS = 20
MAX_VALUE_CHARS = 40
MAX_TABLE_BYTES = 16_384

_NULL = "null"
_CUT = "..."
_GAP = "  "


@dataclass(frozen=True)
class FailingRows:
    """The rows that fail a check, before any of them is read.

    `masked` are positions of columns: the result of a query may have two columns of one name. `relevant`
    are the names of the columns that the check is about, which are shown even if the table has many.
    """

    frame: DataFrame
    masked: frozenset[int] = frozenset()
    relevant: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """Read the first rows and format them; no lines if no rows are left."""
        names = self.frame.columns
        shown = shown_columns(names, self.relevant)
        types = [field.dataType for field in self.frame.schema.fields]
        numbered = self.frame.limit(MAX_ROWS).toDF(*map(str, range(len(names))))
        texts = [
            _mask(F.col(str(at))) if at in self.masked else _text(F.col(str(at)), types[at])
            for at in shown
        ]
        rows = [tuple(row) for row in numbered.select(*texts).collect()]
        if not rows:
            return []
        lines = format_rows([names[at] for at in shown], rows)
        if left_out := len(names) - len(shown):
            lines.append(f"({left_out} more columns are not shown)")
        return lines


def pii_columns(table: CatalogTable | None) -> frozenset[str]:
    """The names, in lower case, of the columns of a table that are marked as PII in the catalog."""
    columns = () if table is None else table.columns
    return frozenset(each.name.lower() for each in columns if each.pii_type is not None)


def masked_positions(frame: DataFrame, marked: Collection[str]) -> frozenset[int]:
    """The positions of columns with these names, which are given in lower case."""
    return frozenset(at for at, name in enumerate(frame.columns) if name.lower() in marked)


def masked_unless_copied(
    result: DataFrame, source: DataFrame, marked: Collection[str]
) -> frozenset[int]:
    """The positions in a query's result that may show PII: all but plain copies of other columns.

    A computed or renamed column may hold what a marked column holds under any name, so only a column that
    the query passes on unchanged from `source`, and that is not marked there, is safe.
    """
    fields = zip(_attribute_ids(source), source.columns, strict=True)
    safe = {each for each, name in fields if name.lower() not in marked}
    return frozenset(at for at, each in enumerate(_attribute_ids(result)) if each not in safe)


def shown_columns(names: Sequence[str], relevant: Sequence[str]) -> list[int]:
    """The positions of the columns to show, in their order: the relevant ones, then the first others."""
    wanted = {each.split(".")[0].lower() for each in relevant}
    by_relevance = sorted(range(len(names)), key=lambda at: names[at].lower() not in wanted)
    return sorted(by_relevance[:MAX_COLUMNS])


def format_rows(names: Sequence[str], rows: Sequence[Sequence[str | None]]) -> list[str]:
    """Rows as lines of aligned columns below their names; a last line counts the rows left out."""
    table = [[_cell(each) for each in names], *([_cell(each) for each in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines: list[str] = []
    size = 0
    for at, cells in enumerate(table):
        padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
        line = _GAP.join(padded).rstrip()
        size += len(line.encode(errors="backslashreplace")) + 1
        if size > MAX_TABLE_BYTES:
            lines.append(f"({len(table) - at} more rows are left out: they are too long)")
            break
        lines.append(line)
    return lines


def _cell(value: str | None) -> str:
    """A value on one line: control characters are escaped, and a long value is shortened."""
    if value is None:
        return _NULL
    escaped = "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode()
        for each in value[: MAX_VALUE_CHARS + 1]
    )
    if len(escaped) <= MAX_VALUE_CHARS:
        return escaped
    return escaped[: MAX_VALUE_CHARS - len(_CUT)] + _CUT


def _mask(column: Column) -> Column:
    """Null stays null: it reveals no value, and many checks look for it."""
    return F.when(column.isNotNull(), F.lit(MASK))


def _text(column: Column, data_type: DataType) -> Column:
    if isinstance(data_type, BinaryType):
        return F.hex(F.substring(column, 1, MAX_VALUE_CHARS))
    return F.substring(column.cast("string"), 1, MAX_VALUE_CHARS + 1)


def _attribute_ids(frame: DataFrame) -> list[str]:
    """Spark's ids of the columns of a frame, which a column keeps as long as it is passed on unchanged."""
    output = frame._jdf.queryExecution().analyzed().output()  # noqa: SLF001 - pyspark has no public access
    return [str(output.apply(at).exprId()) for at in range(output.size())]
