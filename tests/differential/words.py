"""The few things that histories are about."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
RECEIVED_BY = NOON + timedelta(hours=3)  # when the ledger is written, and everything has happened

EXECUTIONS = ("run-1", "run-2", "run-3")
TASKS = ("load", "report")
TABLES = ("tbl-a", "tbl-b")
VALUES: tuple[dict[str, str], ...] = (
    {"date": "2026-05-01"},
    {"region": "eu", "date": "2026-05-02"},
    {"path": "50%/x=y"},
    {},
)
KEYS = ("date=2026-05-01", "region=eu/date=2026-05-02", "date=2026-05-02/region=eu", "no names")
PARTITION_IDS = ("own-1", "own-2")
# A line that no layout has, so that what is told of it is the same in all.
ELSEWHERE = "01M7FVEX5ZQ4SN3QGY2E97DMKR"

PLAIN = ("a", "b", "date=1", "b=1/a=2", "å/%", "日本")
MOMENTS = tuple(
    moment.isoformat()
    for moment in (
        datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=2))),
        datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
        NOON,
        NOON + timedelta(microseconds=1),
        (NOON + timedelta(seconds=1)).astimezone(timezone(timedelta(hours=-5))),
        datetime(9999, 12, 31, 23, 59, 59, tzinfo=timezone(timedelta(hours=-2))),
    )
)

# By the name of a field; the others are whatever their type allows.
NAMED: dict[str, tuple[Any, ...]] = {
    "execution_id": EXECUTIONS,
    "task_id": TASKS,
    "table_id": TABLES,
    "source_table_id": TABLES,
    "target_table_id": TABLES,
    "partition_values": VALUES,
    "partition_key": KEYS,
    "partition_id": PARTITION_IDS,
    "attempt": (1, 2, 3),
    "generation": (0, 0, 1),
    "version": (0, 1, 2),
    "published_version": (0, 1, 2),
    "stream": (ELSEWHERE,),
    "segment": (0, 1),
    "line": (1, 2),
}
