"""Fitting a frame to its table: partition columns that it lacks, new columns, columns that are missing."""

from collections.abc import Collection, Iterable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - everybody calls them so
from pyspark.sql.types import DataType, NullType, StringType, StructField, StructType

from arco.core.errors import Invalid
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
            f"{_listed(target.values)}: write to another table, or drop this one first, with its rows: "
            f"`arco table drop {target.table}`"
        )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "nothing"


def new_columns(schema: StructType, known: StructType, table: str) -> tuple[StructField, ...]:
    """The columns that a table lacks; `Invalid` if one that it has is of another type."""
    by_name = {field.name.lower(): field for field in known.fields}
    added: list[StructField] = []
    for field in schema.fields:
        there = by_name.get(field.name.lower())
        if there is None:
            added.append(StructField(field.name, _typed(field, table), True, field.metadata))
        elif not _same(field.dataType, there.dataType):
            raise Invalid(
                f"{table}: column {there.name!r} is {there.dataType.simpleString()} in the table and "
                f"{field.dataType.simpleString()} in the result: cast it, or write to another table"
            )
    return tuple(added)


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
