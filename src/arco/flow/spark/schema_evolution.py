"""Fits a result and its table to each other: partition columns, new columns, missing columns."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql.types import DataType, NullType, StringType, StructField, StructType

from arco.core.errors import Invalid
from arco.flow.plan.table_state import ColumnChange
from arco.flow.spark.jvm import quote_name
from arco.flow.spark.table_format import WriteTarget


def add_partition_columns(frame: DataFrame, values: dict[str, str]) -> DataFrame:
    """The frame with the columns of its partition; those that it has stay as they are."""
    columns = {name.lower() for name in frame.columns}
    for name, value in values.items():
        if name.lower() not in columns:
            frame = frame.withColumn(name, F.lit(value))
    return frame


def check_columns(schema: StructType, table: str) -> None:
    """`Invalid` for a result that no table can hold."""
    names: set[str] = set()
    for name in schema.names:
        if name.lower() in names:
            raise Invalid(
                f"{table}: the result has two columns called {name!r}: rename one of them"
            )
        names.add(name.lower())
    if not schema.fields:
        raise Invalid(f"{table}: the result has no columns")


def check_partitioning(table_columns: Collection[str], target: WriteTarget) -> None:
    """`Invalid` if the table is partitioned by other columns: old rows would stay beside the new ones.

    That cannot happen where all rows are replaced, or merged by their keys.
    """
    if target.mode.kind not in ("replace_partition", "append"):
        return
    if {each.lower() for each in table_columns} != {each.lower() for each in target.values}:
        raise Invalid(
            f"{target.table} is partitioned by {_join(table_columns)}, and the asset by "
            f"{_join(target.values)}: write to another table, or remove the rows first: "
            f"`arco partitions clear {target.table} all` or `arco table drop {target.table}`"
        )


def _join(names: Iterable[str]) -> str:
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
class ExistingTable:
    """A table before a result is written to it. `was_published`: by an attempt of a pipeline."""

    columns: StructType
    was_published: bool
    is_empty: bool


def fit_columns(
    schema: StructType, table: ExistingTable, target: WriteTarget, changes: list[ColumnChange]
) -> ColumnPlan:
    """What a table needs for a result; all differences go to `changes`, `Invalid` if it cannot hold it."""
    table_fields = {field.name.lower(): field for field in table.columns.fields}
    returned = {field.name.lower() for field in schema.fields}
    added: list[StructField] = []
    retyped: list[StructField] = []
    for field in schema.fields:
        table_field = table_fields.get(field.name.lower())
        before = None if table_field is None else table_field.dataType.simpleString()
        if table_field is not None and _is_same_type(field.dataType, table_field.dataType):
            continue
        after = field.dataType.simpleString()
        changes.append(
            ColumnChange(table=target.table, column=field.name, before=before, after=after)
        )
        new_field = StructField(field.name, _type_of(field, target.table), True, field.metadata)
        (added if table_field is None else retyped).append(new_field)
    missing = [field for field in table.columns.fields if field.name.lower() not in returned]
    for field in missing:
        before = field.dataType.simpleString()
        changes.append(ColumnChange(table=target.table, column=field.name, before=before))
    if retyped and not table.is_empty:
        raise _type_error(target, table_fields[retyped[0].name.lower()], retyped[0])
    no_longer_returned = missing if table.was_published and not table.is_empty else []
    if no_longer_returned and target.on_missing_column == "fail":
        names = ", ".join(repr(field.name) for field in missing)
        raise Invalid(
            f"{target.table}: the result lacks the column {names}, which the table has: return it, or "
            "declare on_missing_column='null' to write nulls, or on_missing_column='drop' to remove it "
            "from the table"
        )
    drops = target.on_missing_column == "drop"
    dropped = tuple(each.name for each in no_longer_returned if drops)
    return ColumnPlan(tuple(added), tuple(retyped), dropped)


def _type_error(target: WriteTarget, in_table: StructField, in_result: StructField) -> Invalid:
    return Invalid(
        f"{target.table}: column {in_table.name!r} is {in_table.dataType.simpleString()} in the table and "
        f"{in_result.dataType.simpleString()} in the result: cast it, write to another table, or remove "
        f"the rows first: `arco partitions clear {target.table} all` or `arco table drop {target.table}`"
    )


def columns_of_new_table(schema: StructType, table: str) -> StructType:
    """The columns of a table that is created for a frame; all of them may be null."""
    fields = [
        StructField(field.name, _type_of(field, table), True, field.metadata)
        for field in schema.fields
    ]
    return StructType(fields)


def select_columns(frame: DataFrame, schema: StructType) -> DataFrame:
    """The frame with exactly the columns of a table, in its order; missing columns are null."""
    fields = {field.name.lower(): field for field in frame.schema.fields}
    return frame.select(*(_column(fields.get(each.name.lower()), each) for each in schema.fields))


def _column(in_frame: StructField | None, in_table: StructField) -> Column:
    if in_frame is None:
        return F.lit(None).cast(in_table.dataType).alias(in_table.name)
    column = F.col(quote_name(in_frame.name))
    if in_frame.dataType.simpleString() != in_table.dataType.simpleString():
        column = column.cast(in_table.dataType)
    return column.alias(in_table.name)


def _type_of(field: StructField, table: str) -> DataType:
    if isinstance(field.dataType, NullType):
        raise Invalid(
            f"{table}: column {field.name!r} has no type, as it is always null: "
            f"write lit(None).cast('string'), or another type"
        )
    return field.dataType


def _is_same_type(new: DataType, old: DataType) -> bool:
    if isinstance(new, NullType):  # nulls fit any type
        return True
    if isinstance(new, StringType) and isinstance(old, StringType):
        return True
    return new.simpleString().lower() == old.simpleString().lower()
