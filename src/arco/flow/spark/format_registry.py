"""The table formats that pipelines can read and write, by name."""

from collections.abc import Callable

from arco.core.errors import Invalid
from arco.flow.spark.iceberg_format import IcebergFormat
from arco.flow.spark.parquet_format import ParquetFormat
from arco.flow.spark.table_format import SparkTableFormat, TableContext

_FORMATS: dict[str, Callable[[TableContext], SparkTableFormat]] = {
    "iceberg": IcebergFormat,
    "parquet": ParquetFormat,
}


class TableFormats:
    """The formats in the session of one task, each created when it is first used."""

    def __init__(self, table_context: TableContext) -> None:
        self._table_context = table_context
        self._created: dict[str, SparkTableFormat] = {}

    def get(self, name: str, table: str) -> SparkTableFormat:
        """The format of this name; `Invalid` if pipelines do not support it."""
        key = name.lower()
        if key not in _FORMATS:
            raise Invalid(
                f"{table} has the format {name}; pipelines support only {', '.join(_FORMATS)}"
            )
        if key not in self._created:
            self._created[key] = _FORMATS[key](self._table_context)
        return self._created[key]

    def close(self) -> None:
        """Release what was staged and neither published nor kept."""
        for each in self._created.values():
            each.close()
