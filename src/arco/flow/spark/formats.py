"""The table formats that there are, by their names."""

from collections.abc import Callable

from arco.core.errors import Invalid
from arco.flow.spark.stage_iceberg import IcebergTables
from arco.flow.spark.stage_parquet import ParquetTables
from arco.flow.spark.target import Room, TableFormat

_FORMATS: dict[str, Callable[[Room], TableFormat]] = {
    "iceberg": IcebergTables,
    "parquet": ParquetTables,
}


class Formats:
    """The formats in the session of one task, each made when it is first asked for."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._made: dict[str, TableFormat] = {}

    def of(self, name: str, table: str) -> TableFormat:
        """The format of this name; `Invalid` if pipelines cannot handle it."""
        called = name.lower()
        if called not in _FORMATS:
            raise Invalid(
                f"{table} is of the format {name}, and pipelines know {', '.join(_FORMATS)} alone"
            )
        if called not in self._made:
            self._made[called] = _FORMATS[called](self._room)
        return self._made[called]

    def close(self) -> None:
        """Let go of what was staged and neither published nor kept."""
        for tables in self._made.values():
            tables.close()
