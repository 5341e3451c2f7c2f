"""Calling what people wrote: a function with its frames, or a query with its tables."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from arco.core.errors import Invalid
from arco.flow.define import AssetDef, Context, TaskDef
from arco.flow.spark.jvm import java_of, jvm_of
from arco.flow.spark.sql_inputs import with_values, with_views

_VIEW = "arco_input"


def wants_spark(maker: AssetDef | TaskDef) -> bool:
    """Whether it cannot be carried out without Spark."""
    if isinstance(maker, AssetDef):
        return True
    return "spark" in inspect.signature(maker.function).parameters


def call_task(task: TaskDef, spark: SparkSession | None, ctx: Context) -> None:
    """Carry a task out; what it returns is of no interest."""
    given = {"spark": spark, "ctx": ctx}
    task.function(**_asked_for(task.function, given))


def call_asset(
    asset: AssetDef, frames: Mapping[str, DataFrame | None], spark: SparkSession, ctx: Context
) -> dict[str, DataFrame]:
    """The frames that an asset results in, by the names of its tables."""
    if asset.sql is not None:
        return {asset.name: _run_query(asset, frames, spark, ctx)}
    if asset.function is None:
        raise Invalid(f"{asset.name} has neither a function nor a query")
    given = {**_asked_for(asset.function, {"spark": spark, "ctx": ctx}), **frames}
    said = asset.function(**given)
    if len(asset.outputs) == 1 and not asset.outputs[0].key:
        return {asset.name: _frame(said, asset, "", spark)}
    return _several(asset, said, spark)


def _asked_for(function: Callable[..., object], given: dict[str, Any]) -> dict[str, Any]:
    wanted = inspect.signature(function).parameters
    return {name: value for name, value in given.items() if name in wanted}


def _run_query(
    asset: AssetDef, frames: Mapping[str, DataFrame | None], spark: SparkSession, ctx: Context
) -> DataFrame:
    views: dict[str, str] = {}
    for at, said in enumerate(asset.inputs):
        frame, view = frames[said.parameter], f"{_VIEW}_{at}"
        if frame is None:
            raise Invalid(f"{asset.where}: a query cannot read its own table {said.table}")
        frame.createOrReplaceTempView(view)
        views.setdefault(said.table, view)
        if "." not in said.parameter:  # a name that the header gives to a table
            frame.createOrReplaceTempView(said.parameter)
    values = {**{name: str(value) for name, value in ctx.params.items()}, **ctx.partition}
    return spark.sql(with_values(with_views(asset.sql or "", views), values))


def _several(asset: AssetDef, said: object, spark: SparkSession) -> dict[str, DataFrame]:
    keys = [output.key for output in asset.outputs]
    if not isinstance(said, Mapping):
        raise Invalid(
            f"{asset.where}: the function returned {_kind(said)}: an asset with several outputs returns "
            f"a dict of frames with the keys {', '.join(map(repr, keys))}"
        )
    if set(said) != set(keys):
        raise Invalid(
            f"{asset.where}: the function returned the keys {', '.join(map(repr, said))}, and its "
            f"outputs are {', '.join(map(repr, keys))}"
        )
    return {
        output.table: _frame(said[output.key], asset, f" for {output.key!r}", spark)
        for output in asset.outputs
    }


def _frame(said: object, asset: AssetDef, where: str, spark: SparkSession) -> DataFrame:
    if not isinstance(said, DataFrame):
        hint = ": is its `return` missing?" if said is None else ": return a DataFrame of Spark"
        raise Invalid(f"{asset.where}: the function returned {_kind(said)}{where}{hint}")
    if said.isStreaming:
        raise Invalid(
            f"{asset.where}: the function returned a stream{where}: read with spark.read, not readStream"
        )
    return _of_session(said, spark)


def _of_session(frame: DataFrame, spark: SparkSession) -> DataFrame:
    """The frame in the task's own session, where alone a write is staged and seen.

    Code that gets its session elsewhere, as by SparkSession.builder, works in another one.
    """
    java = frame._jdf  # noqa: SLF001 - there is no other way to it
    if java.sparkSession().sessionUUID() == java_of(spark).sessionUUID():
        return frame
    datasets = jvm_of(spark).org.apache.spark.sql.classic.Dataset
    moved = datasets.ofRows(java_of(spark), java.queryExecution().logical())
    return DataFrame(moved, spark)


def _kind(said: object) -> str:
    if said is None:
        return "nothing"
    if inspect.isgenerator(said) or inspect.iscoroutine(said):
        return "a generator" if inspect.isgenerator(said) else "a coroutine"
    return f"an object of type {type(said).__module__}.{type(said).__qualname__}"
