"""Filters a table to chosen partitions, by one condition of ranges and short lists.

Values are compared in the type of their column where that is the same comparison, so that files without
them are not opened; otherwise the column is compared as text. The condition carries a marker, by which
lineage recognizes that it is not part of the user's code.
"""

from collections.abc import Iterable
from functools import reduce
from operator import and_, or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql.types import DataType, DateType, IntegralType, StringType, StructType

from arco.core.errors import Invalid
from arco.events.partition_key import parse_partition_key
from arco.flow.lineage.plan_tree import PARTITION_FILTER_MARKER
from arco.flow.partition import Daily, PartitionSet
from arco.flow.partition.dimension import Axis
from arco.flow.partition.partition_set import Box
from arco.flow.partition.time_dimension import TimeDimension
from arco.flow.spark.jvm import quote_name

_MAX_LISTED = 24  # more days or hours become a range
_MAX_BOXES = 200


def filter_partitions(frame: DataFrame, chosen: PartitionSet, table: str) -> DataFrame:
    """The rows of a table that are in the chosen partitions."""
    if not chosen.axes:
        return frame
    marker = F.lit(PARTITION_FILTER_MARKER).isNotNull()
    if not chosen:
        return frame.where(F.lit(False) & marker)
    sides = [_Side.of(frame.schema, name, axis, table) for name, axis in chosen.axes]
    return frame.where(_condition(sides, chosen) & marker)


def filter_values(frame: DataFrame, values: dict[str, str]) -> DataFrame:
    """The rows of one partition, by the values of its columns."""
    for name, value in values.items():
        frame = frame.where(F.col(quote_name(name)).cast("string") == F.lit(value))
    return frame


def _condition(sides: list["_Side"], chosen: PartitionSet) -> Column:
    if len(sides) == 1:
        return sides[0].within(chosen.along(0))
    if len(chosen.boxes) <= _MAX_BOXES:
        return reduce(or_, (_in_box(sides, box) for box in chosen.boxes))
    # Too many boxes: each dimension alone, which prunes files, and then the exact combinations.
    each_alone = reduce(and_, (side.within(chosen.along(at)) for at, side in enumerate(sides)))
    exact = [F.struct(*map(F.lit, _values(sides, key))) for key in chosen]
    return each_alone & F.struct(*(side.text for side in sides)).isin(exact)


def _values(sides: list["_Side"], key: str) -> list[str]:
    values = parse_partition_key(key) or {}
    return [values[side.name] for side in sides]


def _in_box(sides: list["_Side"], box: Box) -> Column:
    return reduce(and_, (side.within([part]) for side, part in zip(sides, box, strict=True)))


class _Side:
    """One dimension as a column of a frame."""

    def __init__(self, name: str, axis: Axis, data_type: DataType) -> None:
        self.name = name
        self._axis = axis
        self._column = F.col(quote_name(name))
        self.text = self._column.cast("string")
        self._cast = _comparable(axis, data_type)

    @classmethod
    def of(cls, schema: StructType, name: str, axis: Axis, table: str) -> "_Side":
        for field in schema.fields:
            if field.name.lower() == name.lower():
                return cls(name, axis, field.dataType)
        raise Invalid(
            f"{table} is partitioned by {name!r}, and has no such column; its columns are "
            f"{', '.join(schema.names)}"
        )

    def within(self, parts: Iterable[range]) -> Column:
        """A condition that the column has one of the values at these positions."""
        listed: list[str] = []
        conditions: list[Column] = []
        for part in parts:
            if (
                isinstance(self._axis, TimeDimension)
                and len(part) > _MAX_LISTED
                and self._cast is not None
            ):
                first, last = map(self._axis.value, (part[0], part[-1]))
                conditions.append(self._column.between(self._literal(first), self._literal(last)))
            else:
                listed += self._axis.values_at(part)
        if listed:
            conditions.append(self._among(listed))
        return reduce(or_, conditions)

    def _among(self, values: list[str]) -> Column:
        if self._cast is None:
            return self.text.isin(values)
        return self._column.isin([self._literal(each) for each in values])

    def _literal(self, value: str) -> Column:
        literal = F.lit(value)
        return literal.cast(self._cast) if self._cast not in (None, "string") else literal


def _comparable(axis: Axis, data_type: DataType) -> str | None:
    """The type that values are cast to; None if the column has to be cast to text."""
    if isinstance(data_type, StringType):
        return "string"
    if isinstance(data_type, DateType) and isinstance(axis, Daily):
        return "date"
    if isinstance(data_type, IntegralType) and not isinstance(axis, TimeDimension):
        return data_type.simpleString()
    return None
