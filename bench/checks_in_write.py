"""Eleven checks and the statistics of all columns inside a write of three million rows, or the bare write.

Both write the same rows to Parquet files, by turns, in a process of their own.
"""

import multiprocessing
import statistics
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.figure import Figure

_ROWS = 3_000_000
_PAIRS = 5
_MOST = 1.8


async def run(scratch: Path) -> list[Figure]:
    """The ratio of the medians, and how many jobs more there were."""
    with (
        TemporaryDirectory(dir=scratch) as folder,
        multiprocessing.get_context("spawn").Pool(1) as pool,
    ):
        bare, checked, extra = pool.apply(_measure, (Path(folder),))
    ratio = statistics.median(checked) / statistics.median(bare)
    return [
        Figure(
            f"write of {_ROWS:,} rows with 11 checks inside, median of {_PAIRS}, seconds",
            f"{statistics.median(checked):.2f}",
            f"{statistics.median(bare):.2f}",
            f"{ratio:.2f} x",
            f"{_MOST} x",
            ratio <= _MOST,
        ),
        Figure(
            "jobs of Spark that the checks add to the write",
            str(extra),
            promised="0",
            met=not extra,
        ),
    ]


def _measure(folder: Path) -> tuple[list[float], list[float], int]:
    """Seconds without and with, by turns, and how many jobs a write with checks has more."""
    from arco.flow.spark.session import open_session

    spark = open_session("local[2]")
    job = _Job(spark, folder)
    seconds: dict[bool, list[float]] = {True: [], False: []}
    jobs: dict[bool, int] = {}
    for at in range(_PAIRS + 1):
        for with_checks in (True, False) if at % 2 else (False, True):
            begun, first = time.perf_counter(), job.begun()
            job.write(with_checks=with_checks)
            if at:  # the first ones are for the compiler
                seconds[with_checks].append(time.perf_counter() - begun)
            jobs[with_checks] = job.begun() - first
    spark.stop()
    return seconds[False], seconds[True], jobs[True] - jobs[False]


class _Job:
    """Orders of one day, as an asset would write them."""

    def __init__(self, spark: Any, folder: Path) -> None:
        self._spark = spark
        self._folder = folder
        self._number = 0

    def write(self, *, with_checks: bool) -> None:
        self._number += 1
        place = str(self._folder / str(self._number))
        frame = self._orders()
        if not with_checks:
            frame.write.parquet(place)
            return
        from arco.flow.spark.write_metrics import observe_write

        watched, counted = observe_write(frame, _measures(frame))
        watched.write.parquet(place)
        metrics = counted()
        if metrics is None or metrics["rows"] != _ROWS:
            raise RuntimeError(f"the checks have counted {metrics}")

    def begun(self) -> int:
        """How many jobs were begun so far."""
        context = self._spark.sparkContext._jsc.sc()
        context.listenerBus().waitUntilEmpty(10_000)
        jobs = context.statusStore().jobsList(None)
        return max((jobs.apply(at).jobId() for at in range(jobs.size())), default=-1) + 1

    def _orders(self) -> Any:
        return self._spark.range(0, _ROWS, 1, 4).selectExpr(
            "id AS order_id",
            "id % 100000 AS customer_id",
            "CAST(id % 10000 AS DECIMAL(12, 2)) / 100 AS amount",
            "element_at(array('eu', 'us', 'asia'), INT(id % 3 + 1)) AS region",
            "concat('c', id % 100000, '@example.com') AS email",
            "timestamp_seconds(1767571200 + id % 86400) AS ordered_at",
            "'2026-01-05' AS ds",
        )


def _measures(frame: Any) -> Any:
    """What an asset with eleven checks has counted while it is written."""
    from arco.catalog.publication import DispatchedAttempt
    from arco.flow.define import checks as c
    from arco.flow.define.options import Mode
    from arco.flow.spark.row_checks import row_checks
    from arco.flow.spark.table_format import WriteTarget
    from arco.flow.spark.write_metrics import WriteMetrics, statistics_of

    eleven = (
        c.not_null("order_id"),
        c.not_null("customer_id", "amount"),
        c.expr("amount >= 0"),
        c.expr("email LIKE '%@%'"),
        c.range("amount", min=0, max=100_000),
        c.range("order_id", min=0),
        c.accepted_values("region", ["eu", "us", "asia"]),
        c.row_count(min=1),
        c.row_count(max=10_000_000, name="few"),
        c.freshness("3650d", column="ordered_at"),
        c.expr("ordered_at >= timestamp'2026-01-05'"),
    )
    attempt = DispatchedAttempt(
        attempt_id="a", task="t", dispatched_at_number=-1, dispatched_at_ms=0
    )
    target = WriteTarget(
        table="default.silver.orders",
        format="parquet",
        partition="ds=2026-01-05",
        values={"ds": "2026-01-05"},
        mode=Mode("replace_partition"),
        attempt=attempt,
    )
    return WriteMetrics(target, row_checks(eleven), statistics_of(frame.schema))
