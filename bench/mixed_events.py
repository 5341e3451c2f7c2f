"""A mixed load of Tier 2: executions with their tasks, partitions and checks, as lines of the ledger.

What stands in them follows from a number, so that any part of the load can be made anywhere, twice.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from ulid import ULID

from arco.core.ids import Ulid
from arco.core.runtime import Runtime
from arco.ledger.segment import encode_segment, segment_key
from arco.ledger.stream import register_stream, slot_chain
from arco.storage.store import Store

DOMAIN = "executions"
TASKS = 6
PARTITIONS = 2
CHECKS = 2
A_RUN = 2 + 2 * TASKS + PARTITIONS + CHECKS  # events of one execution

_BEGAN = datetime(2026, 11, 1, tzinfo=UTC)
_BEGAN_MS = int(_BEGAN.timestamp() * 1000)
_TABLES = 400


def lines_of(run: int) -> list[bytes]:
    """The events of one execution, about 540 bytes each."""
    made = _Run(run)
    table = run % _TABLES
    lines = [
        made.line(
            "execution_started",
            f'"execution_id":"{made.id}","pipeline_id":"pipeline-{run % 97}","pipeline_name":'
            f'"Orders of region {run % 97}, daily","trigger_type":"SCHEDULED",'
            f'"triggered_by":"schedule:orders-{run % 97}","run_key":"orders:{run}"',
        )
    ]
    for task in range(TASKS):
        who = (
            f'"execution_id":"{made.id}","task_id":"task-{task}","task_name":"load_orders_{task}",'
            '"attempt":1'
        )
        lines.append(made.line("task_started", f'{who},"worker":"worker-{run % 13}"'))
        lines.append(
            made.line(
                "task_completed",
                f'{who},"status":"SUCCESS","duration_ms":{1200 + task},"input_tables":'
                f'["table-{table}"],"output_tables":["table-{table + 1}"],"rows_read":{run},'
                f'"rows_written":{run},"bytes_read":{run * 300},"bytes_written":{run * 280},'
                '"metrics":{"shuffle_bytes":"1048576","engine":"spark"}',
            )
        )
    lines += [
        made.line(
            "partition_completed",
            f'"table_id":"table-{table + part}","partition_values":{{"date":"{made.day}",'
            f'"region":"{run % 97}"}},"status":"COMPLETE","row_count":{run},'
            f'"size_bytes":{run * 300},"duration_ms":12500,"version":{run},'
            f'"execution_id":"{made.id}","task_id":"task-{part}"',
        )
        for part in range(PARTITIONS)
    ]
    lines += [
        made.line(
            "quality_check_passed",
            f'"table_id":"table-{table}","check_name":"not_empty_{check}","check_type":'
            f'"ROW_COUNT","severity":"error","expected_value":"> 0","actual_value":"{run}",'
            f'"execution_id":"{made.id}","task_id":"task-0"',
        )
        for check in range(CHECKS)
    ]
    lines.append(
        made.line(
            "execution_completed",
            f'"execution_id":"{made.id}","status":"SUCCESS","duration_ms":93000',
        )
    )
    return lines


class _Run:
    def __init__(self, run: int) -> None:
        self._first = run * A_RUN
        self._made = 0
        self.id = f"01J{run:023d}"
        self.day = (_BEGAN + timedelta(days=run % 14)).date()

    def line(self, kind: str, payload: str) -> bytes:
        number = self._first + self._made
        self._made += 1
        event_id = ULID.from_bytes(
            (_BEGAN_MS + number).to_bytes(6, "big") + number.to_bytes(10, "big")
        )
        at = (_BEGAN + timedelta(milliseconds=number)).isoformat()[:-6]
        return (
            f'{{"event_id":"{event_id}","event_type":"{kind}","event_version":1,"occurred_at":'
            f'"{at}Z","received_at":"{at}Z","idempotency_key":"{event_id}","source":{{"type":'
            f'"airflow","execution_id":"{self.id}","sequence":{self._made}}},"payload":{{{payload}}}}}'
        ).encode()


def segments(first_run: int, runs: int, lines: int) -> Iterator[list[bytes]]:
    """The events of many executions, so many at a time."""
    group: list[bytes] = []
    for run in range(first_run, first_run + runs):
        group += lines_of(run)
        while len(group) >= lines:
            yield group[:lines]
            group = group[lines:]
    if group:
        yield group


async def fill_ledger(
    store: Store, runtime: Runtime, runs: int, *, first_run: int = 0, lines: int = 5_000
) -> int:
    """Put the events of so many executions into the ledger, in one stream; how many bytes they have."""
    slot = await register_stream(slot_chain(store, DOMAIN), 24 * 3_600_000)
    size = 0
    for seq, group in enumerate(segments(first_run, runs, lines)):
        body = encode_segment(runtime, Ulid(slot.stream), seq, group)
        size += len(body)
        await store.create(segment_key(DOMAIN, slot.stream, seq), body)
    return size
