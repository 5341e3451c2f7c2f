"""`arco tier2-worker`: the Spark child of a server, started by `arco up` and `arco compactor`."""

import os
from typing import Annotated

from cyclopts import Parameter

from arco.server.settings import (
    CompactionInterval,
    CompactionSettings,
    RowRetention,
    SparkSettings,
    require_spark,
)
from arco.server.workspace_address import WorkspaceAddress


def worker(
    *,
    address: WorkspaceAddress | None = None,
    spark: SparkSettings | None = None,
    rows: RowRetention | None = None,
    interval: CompactionInterval | None = None,
    nice: Annotated[int, Parameter(metavar="N")] = 0,
) -> None:
    """Compact events for the process that has started this one.

    Parameters
    ----------
    address
        Where the metadata are.
    spark
        Where the work is done.
    rows
        How long rows are kept.
    interval
        How often few events are compacted.
    nice
        The niceness of this process.
    """
    os.nice(nice)  # before there are threads and child processes, which inherit it
    require_spark()
    from arco.server.spark_worker import run_worker

    settings = CompactionSettings(
        spark or SparkSettings(), rows or RowRetention(), interval or CompactionInterval()
    )
    run_worker(address or WorkspaceAddress(), settings)
