"""What the coordinator gets of an attempt, whatever its code logs and whatever the coordinator rejects."""

import os
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

from arco.core.errors import ArcoError, Invalid, NotFound, Unavailable
from arco.events.payload import ColumnProfile
from arco.flow.coordinator.messages import (
    AttemptOutcome,
    AttemptReport,
    CheckOutcome,
    Heartbeat,
    HeartbeatResponse,
    LeaseRequest,
    LeaseResponse,
    OutputResult,
    Progress,
    TaskStatus,
)
from arco.flow.worker.reporter import (
    MAX_CHUNK_CHARS,
    MAX_PENDING_CHARS,
    AttemptLog,
    AttemptReporter,
    LogChunk,
)
from tests.flow.worker.leased_task import TASK
from tests.ledger.simulated import Calm, simulate

CHECK = CheckOutcome(
    table="t", table_id="id", name="few", type="ROW_COUNT", severity="error", passed=True
)
NOT_UTF8 = os.fsdecode(b"caf\xe9.csv")  # a file name as the system returns it


def _send(log: AttemptLog, max_chars: int = MAX_CHUNK_CHARS) -> LogChunk:
    chunk = log.take(max_chars)
    log.acknowledge(chunk)
    return chunk


def test_lines_are_taken_once_and_in_order() -> None:
    log = AttemptLog()
    for line in ("one", "two\n", "three"):
        log.log(line)
    assert (_send(log), _send(log)) == (LogChunk(0, "one\ntwo\nthree\n"), LogChunk())


def test_an_unacknowledged_chunk_is_sent_again_unchanged() -> None:
    log = AttemptLog()
    log.log("one")
    first = log.take()
    log.log("two")
    assert _send(log) == first == LogChunk(0, "one\n")
    log.acknowledge(first)  # a repeated acknowledgement
    assert _send(log) == LogChunk(1, "two\n")


def test_a_long_log_is_sent_in_chunks() -> None:
    log = AttemptLog()
    for number in range(10):
        log.log(f"{number}" * 9)
    chunks = [_send(log, max_chars=25) for _ in range(5)]
    assert [chunk.text.count("\n") for chunk in chunks] == [3, 3, 3, 1, 0]
    assert [chunk.number for chunk in chunks] == [0, 1, 2, 3, None]


def test_lines_beyond_the_pending_limit_are_counted() -> None:
    log = AttemptLog()
    fitting = MAX_PENDING_CHARS // 1_000
    for _ in range(fitting + 7):
        log.log("x" * 999)
    text = _send(log, max_chars=2 * MAX_PENDING_CHARS).text
    assert text.count("\n") == fitting + 1
    assert text.endswith("... 7 lines were left out: too many at once\n")
    log.log("fits again")
    assert _send(log).text == "fits again\n"


def test_a_rejected_chunk_is_replaced_by_a_notice() -> None:
    log = AttemptLog()
    log.log("x" * 99)
    log.progress(Progress(phase="writing"))
    log.reject(log.take(), "it is too odd")
    log.log("next")
    assert _send(log) == LogChunk(0, "... 100 characters were left out: it is too odd\n")
    assert (_send(log), log.latest) == (LogChunk(1, "next\n"), Progress())


def test_text_that_is_not_utf8_is_escaped() -> None:
    log = AttemptLog()
    log.log(f"reading {NOT_UTF8}")
    log.progress(Progress(message=NOT_UTF8))
    assert log.take().text == "reading caf\\udce9.csv\n"
    assert log.latest.message == "caf\\udce9.csv"


class _Coordinator:
    """Accepts what JSON can encode, unless `rejects` returns an error."""

    def __init__(
        self, rejects: Callable[[Heartbeat | AttemptReport], ArcoError | None] = lambda _: None
    ) -> None:
        self._rejects = rejects
        self.heartbeats: list[Heartbeat] = []
        self.reports: list[AttemptReport] = []
        self.chunks: dict[int, str] = {}

    async def lease(self, request: LeaseRequest) -> LeaseResponse:
        raise NotImplementedError

    async def watch(
        self, worker: str, attempt_ids: tuple[str, ...], wait_ms: int = 0
    ) -> tuple[str, ...]:
        raise NotImplementedError

    async def heartbeat(self, heartbeat: Heartbeat) -> HeartbeatResponse:
        self._accept(heartbeat)
        self.heartbeats.append(heartbeat)
        return HeartbeatResponse(lease_until_ms=0)

    async def complete(self, report: AttemptReport) -> None:
        self._accept(report)
        self.reports.append(report)

    @property
    def log(self) -> str:
        return "".join(self.chunks[number] for number in range(len(self.chunks)))

    def _accept(self, message: Heartbeat | AttemptReport) -> None:
        msgspec.json.encode(message)
        if (error := self._rejects(message)) is not None:
            raise error
        if message.log_part is not None:
            self.chunks.setdefault(message.log_part, message.log)


def _run(coordinator: _Coordinator, attempt: Callable[[AttemptReporter, AttemptLog], Any]) -> None:
    async def scenario(calm: Calm) -> None:
        log = AttemptLog()
        await attempt(AttemptReporter(coordinator, calm.runtime, "w", TASK, log), log)

    simulate(scenario)


def test_a_heartbeat_that_cannot_be_encoded_is_sent_without_its_content() -> None:
    async def attempt(reporter: AttemptReporter, log: AttemptLog) -> None:
        log.log("one")
        log.progress(Progress(phase="writing", done=np.float32(0.5)))  # type: ignore[arg-type]
        await reporter.heartbeat()
        log.log("two")
        log.progress(Progress(phase="writing"))
        for _ in range(2):
            await reporter.heartbeat()

    coordinator = _Coordinator()
    _run(coordinator, attempt)
    assert len(coordinator.heartbeats) == 3
    notice, line = coordinator.log.splitlines()
    assert (notice[:35], line) == ("... 4 characters were left out: Typ", "two")


def test_a_long_log_ends_with_the_error() -> None:
    lines = [f"{number:06d} " + "x" * 93 for number in range(3 * MAX_CHUNK_CHARS // 100)]

    async def attempt(reporter: AttemptReporter, log: AttemptLog) -> None:
        for line in lines:
            log.log(line)
        outcome = AttemptOutcome(status=TaskStatus.FAILED, error="ValueError: why")
        assert await reporter.complete(outcome)

    coordinator = _Coordinator()
    _run(coordinator, attempt)
    assert coordinator.log.splitlines() == [*lines, "ValueError: why"]


def test_lines_of_an_unanswered_heartbeat_are_sent_with_the_end() -> None:
    is_away = True

    async def attempt(reporter: AttemptReporter, log: AttemptLog) -> None:
        nonlocal is_away
        log.log("one")
        try:
            await reporter.heartbeat()
        except Unavailable:
            is_away = False
        log.log("two")
        await reporter.complete(AttemptOutcome(status=TaskStatus.BLOCKED, error="a check failed"))

    coordinator = _Coordinator(lambda _: Unavailable("away") if is_away else None)
    _run(coordinator, attempt)
    assert coordinator.log == "one\ntwo\na check failed\n"


def test_the_end_is_reported_though_heartbeats_are_rejected() -> None:
    async def attempt(reporter: AttemptReporter, log: AttemptLog) -> None:
        log.log("x" * MAX_CHUNK_CHARS)
        assert await reporter.complete(AttemptOutcome(status=TaskStatus.SUCCESS))

    coordinator = _Coordinator(lambda each: NotFound("x") if isinstance(each, Heartbeat) else None)
    _run(coordinator, attempt)
    assert [each.outcome.status for each in coordinator.reports] == ["SUCCESS"]


def test_a_rejected_report_is_sent_without_extras_and_the_log_says_so() -> None:
    output = OutputResult(table="t", table_id="id", partition="", version=7)
    outcome = AttemptOutcome(
        status=TaskStatus.SUCCESS,
        outputs=(msgspec.structs.replace(output, columns=(ColumnProfile(column_id="a"),)),),
        checks=(CHECK,),
        metrics={"m": 1.0},
    )

    def rejects(message: Heartbeat | AttemptReport) -> ArcoError | None:
        has_metrics = isinstance(message, AttemptReport) and bool(message.outcome.metrics)
        return Invalid("no such metrics") if has_metrics else None

    async def attempt(reporter: AttemptReporter, log: AttemptLog) -> None:
        log.log("one")
        assert await reporter.complete(outcome)

    coordinator = _Coordinator(rejects)
    _run(coordinator, attempt)
    [report] = coordinator.reports
    assert report.outcome == AttemptOutcome(status=TaskStatus.SUCCESS, outputs=(output,))
    first, notice = coordinator.log.splitlines()
    assert (first, "lineage, metrics" in notice) == ("one", True)
    assert notice.endswith("Invalid: no such metrics")
