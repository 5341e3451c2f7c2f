"""What the routes of pipelines need besides the rest of the API."""

from dataclasses import dataclass

from arco.flow.coordinator.ports import Coordinator, RunReader
from arco.flow.publish.tables import ParquetTables


@dataclass(frozen=True)
class FlowDesk:
    """The book of runs, what events tell of runs that it has forgotten, and plain Parquet tables."""

    coordinator: Coordinator
    runs: RunReader
    tables: ParquetTables
