"""UDFs of modules that are loaded before there is a Spark.

`@udf("string")` at the top of a module has Spark read the text of its type at once, only to show it, and
Spark is what reads such texts. A project is loaded by commands that have none. So the text is shown as it
was written, and read when the function is first used in a query.
"""

from pyspark import SparkContext
from pyspark.sql.types import DataType
from pyspark.sql.udf import UserDefinedFunction

_read = UserDefinedFunction.returnType.fget  # type: ignore[attr-defined] # of the class, it is a property


def allow_early_udfs() -> None:
    """Let UDFs be declared without a Spark; to be called before a project is loaded."""
    setattr(UserDefinedFunction, "returnType", property(_said_or_read))  # noqa: B010


def _said_or_read(udf: UserDefinedFunction) -> "DataType | str":
    said = udf._returnType  # noqa: SLF001 - there is no other way to it
    if isinstance(said, str) and SparkContext._active_spark_context is None:  # noqa: SLF001
        return said
    read: DataType = _read(udf)
    return read
