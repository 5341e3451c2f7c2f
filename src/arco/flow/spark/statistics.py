"""Statistics of columns, counted while rows are written: nulls, the least and the largest value."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - everybody calls them so
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DateType,
    NumericType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from arco.events.table import ColumnProfile
from arco.flow.spark.checks import ROWS, Metrics, count_of
from arco.flow.spark.choice import quoted

MOST_COLUMNS = 50
_LONGEST = 256


@dataclass(frozen=True)
class Profile:
    """The columns of a table that are looked into: the first ones whose values have an order."""

    names: tuple[str, ...]

    def measures(self) -> Iterator[Column]:
        """What is counted."""
        for at, name in enumerate(self.names):
            column = quoted(name)
            # As text: each call to the JVM costs more than to read it there.
            yield F.expr(f"count({column}) AS filled_{at}")
            yield F.expr(f"{_text('min', column)} AS least_{at}")
            yield F.expr(f"{_text('max', column)} AS most_{at}")

    def columns(self, metrics: Metrics, ids: Mapping[str, str]) -> tuple[ColumnProfile, ...]:
        """What was found in the columns whose ids are known, by their names."""
        rows = count_of(metrics, ROWS)
        return tuple(
            ColumnProfile(
                column_id=ids[name],
                column_name=name,
                row_count=rows,
                null_count=rows - count_of(metrics, f"filled_{at}"),
                min_value=_said(metrics.get(f"least_{at}")),
                max_value=_said(metrics.get(f"most_{at}")),
            )
            for at, name in enumerate(self.names)
            if name in ids
        )


def profile_of(schema: StructType) -> Profile:
    """What is looked into of a table with these columns."""
    ordered = [field.name for field in schema.fields if _has_order(field.dataType)]
    return Profile(tuple(ordered[:MOST_COLUMNS]))


def _has_order(data_type: DataType) -> bool:
    kinds = NumericType | StringType | BooleanType | DateType | TimestampType | TimestampNTZType
    return isinstance(data_type, kinds)


def _text(function: str, column: str) -> str:
    return f"substring(CAST({function}({column}) AS STRING), 1, {_LONGEST})"


def _said(value: object) -> str | None:
    return None if value is None else str(value)
