"""Fitting a frame to its table: partition columns that it lacks, new columns, columns that are missing."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import NoReturn

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - everybody calls them so
from pyspark.sql.types import DataType, NullType, StringType, StructField, StructType

from arco.core.errors import Invalid
from arco.flow.plan.table_state import ColumnChange
from arco.flow.spark.choice import quoted
from arco.flow.spark.target import Target


def with_partition(frame: DataFrame, values: dict[str, str]) -> DataFrame:
    """The frame with the columns of its partition; those that it has stay as they are."""
    has = {name.lower() for name in frame.columns}
    for name, value in values.items():
        if name.lower() not in has:
            frame = frame.withColumn(name, F.lit(value))
    return frame


def check_columns(schema: StructType, table: str) -> None:
    """Refuse what no table can hold, before anything is made."""
    seen: set[str] = set()
    for name in schema.names:
        if name.lower() in seen:
            raise Invalid(
                f"{table}: the result has two columns called {name!r}: rename one of them"
            )
        seen.add(name.lower())
    if not schema.fields:
        raise Invalid(f"{table}: the result has no columns")


def check_cut(there: Collection[str], target: Target) -> None:
    """Refuse a table that was cut otherwise: its old rows would stay beside the new ones.

    Where all rows are replaced, or merged by their keys, that cannot happen.
    """
    if target.mode.kind not in ("replace_partition", "append"):
        return
    if {each.lower() for each in there} != {each.lower() for each in target.values}:
        raise Invalid(
            f"{target.table} is cut by {_listed(there)}, and the asset makes it by "
            f"{_listed(target.values)}: write to another table, or remove the rows first: "
            f"`arco partitions clear {target.table} all` or `arco table drop {target.table}`"
        )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "nothing"


@dataclass(frozen=True)
class ColumnPlan:
    """What a table needs for a result: columns to add, and columns to drop once it is published.

    `retyped` are columns of a table without rows that take the type of the result.
    """

    added: tuple[StructField, ...] = ()
    retyped: tuple[StructField, ...] = ()
    dropped: tuple[str, ...] = ()


@dataclass(frozen=True)
class TableNow:
    """A table before a result enters it. `was_made`: a pipeline has published to it."""

    columns: StructType
    was_made: bool
    is_empty: bool


def fit_columns(
    schema: StructType, now: TableNow, target: Target, changes: list[ColumnChange]
) -> ColumnPlan:
    """What a table needs for a result; all differences go to `changes`, `Invalid` if it cannot hold it."""
    known = {field.name.lower(): field for field in now.columns.fields}
    returned = {field.name.lower() for field in schema.fields}
    added: list[StructField] = []
    retyped: list[StructField] = []
    for field in schema.fields:
        there = known.get(field.name.lower())
        before = None if there is None else there.dataType.simpleString()
        if there is not None and _same(field.dataType, there.dataType):
            continue
        after = field.dataType.simpleString()
        changes.append(
            ColumnChange(table=target.table, column=field.name, before=before, after=after)
        )
        wanted = StructField(field.name, _typed(field, target.table), True, field.metadata)
        (added if there is None else retyped).append(wanted)
    missing = [field for field in now.columns.fields if field.name.lower() not in returned]
    for field in missing:
        before = field.dataType.simpleString()
        changes.append(ColumnChange(table=target.table, column=field.name, before=before))
    if retyped and not now.is_empty:
        _refuse_type(target, known[retyped[0].name.lower()], retyped[0])
    no_longer_returned = missing if now.was_made and not now.is_empty else []
    if no_longer_returned and target.on_missing_column == "fail":
        _refuse_missing(target, [field.name for field in missing])
    dropped = target.on_missing_column == "drop"
    return ColumnPlan(
        tuple(added), tuple(retyped), tuple(each.name for each in no_longer_returned if dropped)
    )


def _refuse_type(target: Target, there: StructField, returned: StructField) -> NoReturn:
    raise Invalid(
        f"{target.table}: column {there.name!r} is {there.dataType.simpleString()} in the table and "
        f"{returned.dataType.simpleString()} in the result: cast it, write to another table, or remove the "
        f"rows first: `arco partitions clear {target.table} all` or `arco table drop {target.table}`"
    )


def _refuse_missing(target: Target, names: list[str]) -> NoReturn:
    which = ", ".join(map(repr, names))
    raise Invalid(
        f"{target.table}: the result lacks the column {which}, which the table has: return it, or declare "
        "on_missing_column='null' to write nulls, or on_missing_column='drop' to remove it from the table"
    )


def columns_of_new_table(schema: StructType, table: str) -> StructType:
    """The columns of a table that is made for a frame; all of them may be null."""
    fields = [
        StructField(field.name, _typed(field, table), True, field.metadata)
        for field in schema.fields
    ]
    return StructType(fields)


def arranged(frame: DataFrame, known: StructType) -> DataFrame:
    """The frame with exactly the columns of a table, in its order; what is missing is null."""
    has = {field.name.lower(): field for field in frame.schema.fields}
    return frame.select(*(_column(has.get(field.name.lower()), field) for field in known.fields))


def _column(there: StructField | None, wanted: StructField) -> Column:
    if there is None:
        return F.lit(None).cast(wanted.dataType).alias(wanted.name)
    column = F.col(quoted(there.name))
    if there.dataType.simpleString() != wanted.dataType.simpleString():
        column = column.cast(wanted.dataType)
    return column.alias(wanted.name)


def _typed(field: StructField, table: str) -> DataType:
    if isinstance(field.dataType, NullType):
        raise Invalid(
            f"{table}: column {field.name!r} has no type, as it is always null: "
            f"write lit(None).cast('string'), or whatever it will be"
        )
    return field.dataType


def _same(new: DataType, there: DataType) -> bool:
    if isinstance(new, NullType):  # only null: it is one of any type
        return True
    if isinstance(new, StringType) and isinstance(there, StringType):
        return True
    return new.simpleString().lower() == there.simpleString().lower()
