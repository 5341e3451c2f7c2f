"""Calls what users wrote: functions with their frames, and queries with their tables.

In a query, a table is replaced by a view of exactly the rows that it may read. A view has a generated name,
so that it meets no name of the query. Where the query gives its table no alias, the table's own name
becomes one: `orders.amount` means the same as before.
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DataType
from pyspark.sql.udf import UserDefinedFunction

from arco.core.errors import Invalid
from arco.flow.define import AssetDef, Context, TaskDef
from arco.flow.define.sql_query import SqlToken, TableReference, find_table_references, tokenize
from arco.flow.spark.jvm import java_session, jvm_of, quote_name
from arco.flow.table_name import base_name, full_name

_VIEW = "arco_input"
# What may follow a table, and is no alias of it.
_NO_ALIAS = frozenset(
    {
        *("WHERE", "GROUP", "ORDER", "HAVING", "JOIN", "INNER", "CROSS", "LEFT"),
        *("RIGHT", "FULL", "NATURAL", "SEMI", "ANTI", "ON", "USING", "UNION"),
        *("EXCEPT", "MINUS", "INTERSECT", "LIMIT", "OFFSET", "LATERAL", "PIVOT", "UNPIVOT"),
        *("WINDOW", "CLUSTER", "DISTRIBUTE", "SORT", "SELECT", "QUALIFY"),
    }
)
_SAMPLE = "TABLESAMPLE"  # an alias would have to follow it
_TIME_TRAVEL = frozenset({"VERSION", "TIMESTAMP", "FOR"})
_parsed_return_type = UserDefinedFunction.returnType.fget  # type: ignore[attr-defined] # a property


def needs_spark(maker: AssetDef | TaskDef) -> bool:
    """Whether it cannot run without Spark."""
    if isinstance(maker, AssetDef):
        return True
    return "spark" in inspect.signature(maker.function).parameters


def call_task(task: TaskDef, spark: SparkSession | None, ctx: Context) -> None:
    """Call the function of a task; its result is ignored."""
    task.function(**_parameters_of(task.function, {"spark": spark, "ctx": ctx}))


def call_asset(
    asset: AssetDef, frames: Mapping[str, DataFrame | None], spark: SparkSession, ctx: Context
) -> dict[str, DataFrame]:
    """The frames that an asset returns, by the names of its tables."""
    if asset.sql is not None:
        return {asset.name: _run_query(asset, frames, spark, ctx)}
    if asset.function is None:
        raise Invalid(f"{asset.name} has neither a function nor a query")
    parameters = _parameters_of(asset.function, {"spark": spark, "ctx": ctx})
    result = asset.function(**{**parameters, **frames})
    if len(asset.outputs) == 1 and not asset.outputs[0].key:
        return {asset.name: _check_frame(result, asset, "", spark)}
    return _frames_by_table(asset, result, spark)


def _parameters_of(function: Callable[..., object], values: dict[str, Any]) -> dict[str, Any]:
    """Those values that a function has a parameter for."""
    parameters = inspect.signature(function).parameters
    return {name: value for name, value in values.items() if name in parameters}


def _run_query(
    asset: AssetDef, frames: Mapping[str, DataFrame | None], spark: SparkSession, ctx: Context
) -> DataFrame:
    views: dict[str, str] = {}
    for at, declared in enumerate(asset.inputs):
        frame, view = frames[declared.parameter], f"{_VIEW}_{at}"
        if frame is None:
            raise Invalid(f"{asset.where}: a query cannot read its own table {declared.table}")
        frame.createOrReplaceTempView(view)
        views.setdefault(declared.table, view)
        if "." not in declared.parameter:  # a name that the header gives to a table
            frame.createOrReplaceTempView(declared.parameter)
    values = {**{name: str(value) for name, value in ctx.params.items()}, **ctx.partition}
    return spark.sql(replace_parameters(replace_tables(asset.sql or "", views), values))


def _frames_by_table(asset: AssetDef, result: object, spark: SparkSession) -> dict[str, DataFrame]:
    keys = [output.key for output in asset.outputs]
    if not isinstance(result, Mapping):
        raise Invalid(
            f"{asset.where}: the function returned {_type_text(result)}: an asset with several outputs "
            f"returns a dict of frames with the keys {', '.join(map(repr, keys))}"
        )
    if set(result) != set(keys):
        raise Invalid(
            f"{asset.where}: the function returned the keys {', '.join(map(repr, result))}, and its "
            f"outputs are {', '.join(map(repr, keys))}"
        )
    return {
        output.table: _check_frame(result[output.key], asset, f" for {output.key!r}", spark)
        for output in asset.outputs
    }


def _check_frame(result: object, asset: AssetDef, output: str, spark: SparkSession) -> DataFrame:
    if not isinstance(result, DataFrame):
        advice = ": is its `return` missing?" if result is None else ": return a Spark DataFrame"
        raise Invalid(f"{asset.where}: the function returned {_type_text(result)}{output}{advice}")
    if result.isStreaming:
        raise Invalid(
            f"{asset.where}: the function returned a stream{output}: read with spark.read, not readStream"
        )
    return _move_to_session(result, spark)


def _move_to_session(frame: DataFrame, spark: SparkSession) -> DataFrame:
    """The frame in the session of the task, where writes are staged and observed.

    Code that gets its session in another way, such as by SparkSession.builder, works in another one.
    """
    java = frame._jdf  # noqa: SLF001 - pyspark has no public access
    if java.sparkSession().sessionUUID() == java_session(spark).sessionUUID():
        return frame
    datasets = jvm_of(spark).org.apache.spark.sql.classic.Dataset
    moved = datasets.ofRows(java_session(spark), java.queryExecution().logical())
    return DataFrame(moved, spark)


def _type_text(result: object) -> str:
    if result is None:
        return "nothing"
    if inspect.isgenerator(result) or inspect.iscoroutine(result):
        return "a generator" if inspect.isgenerator(result) else "a coroutine"
    return f"an object of type {type(result).__module__}.{type(result).__qualname__}"


def replace_tables(sql: str, views: Mapping[str, str]) -> str:
    """The query with views, given by the full names of the tables that they replace.

    A table that the query reads in another version is left alone, and so is one that has no view.
    """
    parts, at = [], 0
    for named in find_table_references(sql):
        view = views.get(full_name(named.name))
        if view is None or named.then.upper() in _TIME_TRAVEL:
            continue
        parts += [sql[at : named.start], quote_name(view), _alias(named)]
        at = named.end
    return "".join([*parts, sql[at:]]).rstrip().rstrip(";")


def replace_parameters(sql: str, values: Mapping[str, str]) -> str:
    """The query with string literals for parameters such as `:ds` that have a value.

    Spark has such parameters itself, but the parser of Iceberg's extension does not pass them on.
    """
    parts, at = [], 0
    pieces = list(tokenize(sql))
    for before, colon, word in zip([None, *pieces], pieces, pieces[1:], strict=False):
        if colon.text != ":" or word.kind != "word" or word.text not in values:
            continue
        if word.start != colon.end or _is_operator(before, colon):
            continue
        parts += [sql[at : colon.start], _literal(values[word.text])]
        at = word.end
    return "".join([*parts, sql[at:]])


def _is_operator(before: SqlToken | None, colon: SqlToken) -> bool:
    """Whether a colon is an operator, as in `payload:name` and `amount::int`."""
    if before is None or before.end != colon.start:
        return False
    return before.kind in ("word", "quoted") or before.text in (")", "]", ":")


def _literal(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _alias(named: TableReference) -> str:
    following = named.then.upper()
    is_word = following[:1].isalpha() or following[:1] in ("_", "`")
    if following == _SAMPLE or (is_word and following not in _NO_ALIAS):
        return ""
    return f" AS {quote_name(base_name(full_name(named.name)))}"


def allow_early_udfs() -> None:
    """Let modules declare UDFs before Spark is started; call it before a project is loaded.

    `@udf("string")` at the top of a module has Spark parse the type at once, only to show it, and a project
    is loaded by commands that start no Spark. So the text is returned as written until Spark runs.
    """
    setattr(UserDefinedFunction, "returnType", property(_return_type))  # noqa: B010


def _return_type(udf: UserDefinedFunction) -> "DataType | str":
    declared = udf._returnType  # noqa: SLF001 - pyspark has no public access
    if isinstance(declared, str) and SparkContext._active_spark_context is None:  # noqa: SLF001
        return declared
    parsed: DataType = _parsed_return_type(udf)
    return parsed
