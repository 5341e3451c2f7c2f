"""What the routes of pipelines need besides the rest of the API."""

from dataclasses import dataclass

from arco.flow.publish.tables import ParquetTables
from arco.flow.run.port import Coordinator
from arco.flow.run.ports import RunReader


@dataclass(frozen=True)
class FlowDesk:
    """The book of runs, what events tell of runs that it has forgotten, and plain Parquet tables."""

    coordinator: Coordinator
    runs: RunReader
    tables: ParquetTables
