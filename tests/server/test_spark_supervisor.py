"""The supervisor of the Spark child, with scripts as children that only send messages."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from arco.api.health_monitor import CompactionFailure
from arco.core.errors import Unavailable
from arco.core.runtime import Runtime
from arco.ledger.segment import Segment
from arco.server.spark_child import (
    ChildMessage,
    ChildProcess,
    CyclePublished,
    Notification,
    SparkReady,
    WorkFailed,
    encode,
)
from arco.server.spark_supervisor import ChildExited, ChildPolicy, SparkSupervisor
from tests.processes.server import eventually

# Sends that it is ready, and a cycle of the domain of every notification.
WORKING = """
import json, sys
print(json.dumps({"type": "Ready", "ms": 1}), flush=True)
cycle = {"kind": "fold", "manifest": 1, "counts": {"events": 1}, "files": 1, "size_bytes": 10}
for line in sys.stdin:
    domain = json.loads(line)["domain"]
    done = {**cycle, "domain": domain, "phases_ms": {"fold": 2}, "lag_ms": 3}
    print(json.dumps({"type": "Cycled", "cycle": done}), flush=True)
"""
FAILING = """
print('{"type": "Failed", "what": "Spark", "error": "Unavailable"}', flush=True)
"""
NOT_READING = """
import time
print('{"type": "Ready", "ms": 1}', flush=True)
time.sleep(600)
"""


@dataclass
class Supervised:
    """A supervisor, its children, and their messages."""

    supervisor: SparkSupervisor
    children: list[ChildProcess] = field(default_factory=list)
    messages: list[ChildMessage | ChildExited] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    async def until(self, kind: type, count: int = 1) -> None:
        async def look() -> bool:
            return sum(isinstance(each, kind) for each in self.messages) >= count

        await eventually(look, within_s=30)

    def domains(self) -> list[str]:
        return [each.cycle.domain for each in self.messages if isinstance(each, CyclePublished)]


@asynccontextmanager
async def supervising(
    runtime: Runtime,
    script: str,
    policy: ChildPolicy | None = None,
    *,
    behind: bool | Exception = False,
) -> AsyncIterator[Supervised]:
    children: list[ChildProcess] = []

    def start() -> ChildProcess:
        children.append(ChildProcess([sys.executable, "-c", script]))
        return children[-1]

    async def is_behind() -> bool:
        if isinstance(behind, Exception):
            raise behind
        return behind

    messages: list[ChildMessage | ChildExited] = []
    problems: list[str] = []
    supervisor = SparkSupervisor(
        start,
        runtime,
        policy=policy or ChildPolicy(),
        has_backlog=is_behind,
        report=messages.append,
        failed=lambda what, _problem: problems.append(what),
    )
    async with supervisor.running():
        yield Supervised(supervisor, children, messages, problems)
    assert not any(_lives(child.pid) for child in children)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_no_child_runs_before_the_first_notification(runtime: Runtime) -> None:
    async with supervising(runtime, WORKING) as supervised:
        await asyncio.sleep(0.3)
        assert supervised.children == []
        supervised.supervisor.notify("executions", "s")
        await supervised.until(SparkReady)
        assert len(supervised.children) == 1


async def test_a_ledger_with_unpublished_events_starts_a_child(runtime: Runtime) -> None:
    async with supervising(runtime, WORKING, behind=True) as supervised:
        await supervised.until(SparkReady)


async def test_notifications_reach_the_child_and_its_cycles_are_reported(runtime: Runtime) -> None:
    async with supervising(runtime, WORKING, behind=True) as supervised:
        await supervised.until(SparkReady)
        for domain in ("executions", "lineage", "executions", "executions"):
            supervised.supervisor.notify(domain, "s")
        await supervised.until(CyclePublished, 2)
        assert sorted(supervised.domains()) == [
            "executions",
            "lineage",
        ]  # once each: they came together
        assert supervised.supervisor.is_up


async def test_small_segments_are_sent_with_notifications(runtime: Runtime) -> None:
    counting = WORKING.replace(
        'domain = json.loads(line)["domain"]',
        'ring = json.loads(line); domain = ring["domain"]; '
        'cycle["files"] = sum(len(each["raw"]) for each in ring.get("segments", []))',
    )
    async with supervising(runtime, counting, behind=True) as supervised:
        await supervised.until(SparkReady)
        for seq in range(2):
            supervised.supervisor.notify("executions", "s", Segment("s", seq, False, b"x" * 30))
        await supervised.until(CyclePublished, 1)
        supervised.supervisor.notify("executions", "s", Segment("s", 2, False, b"x" * 1_000_000))
        await supervised.until(CyclePublished, 2)
        files = [
            each.cycle.files for each in supervised.messages if isinstance(each, CyclePublished)
        ]
        assert files == [2 * 40, 0]  # in base64; the large one is read from the store


async def test_a_killed_child_is_restarted_and_notified(
    runtime: Runtime,
) -> None:
    async with supervising(runtime, WORKING, behind=True) as supervised:
        await supervised.until(SparkReady)
        os.kill(supervised.children[0].pid, signal.SIGKILL)
        await supervised.until(ChildExited)
        assert not supervised.supervisor.is_up
        await supervised.until(SparkReady, 2)
        supervised.supervisor.notify("search", "s")
        await supervised.until(CyclePublished)
        assert supervised.domains() == ["search"]
        assert supervised.supervisor.exits == 0


async def test_a_child_that_never_starts_is_restarted_with_growing_pauses(runtime: Runtime) -> None:
    async with supervising(runtime, FAILING, behind=True) as supervised:
        await supervised.until(ChildExited, 3)
        pauses = [each.restart_ms for each in supervised.messages if isinstance(each, ChildExited)]
        assert pauses[0] < pauses[1] < pauses[2]
        assert WorkFailed("Spark", "Unavailable") in supervised.messages


async def test_an_idle_child_ends_and_the_next_notification_starts_another(
    runtime: Runtime,
) -> None:
    async with supervising(runtime, WORKING, ChildPolicy(idle_ms=200)) as supervised:
        supervised.supervisor.notify("executions", "s")
        await supervised.until(SparkReady)

        async def is_waiting() -> bool:
            return supervised.supervisor.state == "waiting"

        await eventually(is_waiting)
        assert not any(isinstance(each, ChildExited) for each in supervised.messages)
        supervised.supervisor.notify("executions", "s")
        await supervised.until(SparkReady, 2)
        assert len(supervised.children) == 2


async def test_a_child_that_starts_or_has_work_is_not_idle(
    runtime: Runtime,
) -> None:
    slow = WORKING.replace("import json, sys", "import json, sys, time; time.sleep(1)")
    async with supervising(runtime, slow, ChildPolicy(idle_ms=100)) as supervised:
        supervised.supervisor.notify("executions", "s")
        await supervised.until(SparkReady)  # it took ten times as long
    async with supervising(runtime, WORKING, ChildPolicy(idle_ms=100), behind=True) as supervised:
        await supervised.until(SparkReady)
        await asyncio.sleep(0.5)
        assert supervised.supervisor.state == "running"
        assert len(supervised.children) == 1


async def test_a_child_that_does_not_start_in_time_is_given_up(runtime: Runtime) -> None:
    silent = "import sys; sys.stdin.read()"
    async with supervising(
        runtime, silent, ChildPolicy(start_timeout_ms=200), behind=True
    ) as supervised:
        await supervised.until(ChildExited)
        assert (
            WorkFailed("Spark", "TimeoutError", "it did not start in time") in supervised.messages
        )
        assert supervised.supervisor.state == "restarting"


async def test_a_child_that_does_not_read_is_killed_after_some_seconds(runtime: Runtime) -> None:
    began = time.monotonic()
    async with supervising(runtime, NOT_READING, behind=True) as supervised:
        await supervised.until(SparkReady)
        for number in range(5_000):
            supervised.supervisor.notify("executions", f"stream-{number}")  # more than a pipe holds
        await asyncio.sleep(0.2)
    assert time.monotonic() - began < 20


async def test_a_failed_check_of_the_ledger_is_reported_and_ends_nothing(runtime: Runtime) -> None:
    async with supervising(runtime, WORKING, behind=Unavailable("no answer")) as supervised:
        await asyncio.sleep(0.1)
        assert supervised.problems == ["looking at the ledger"]
        supervised.supervisor.notify("executions", "s")
        await supervised.until(SparkReady)


@pytest.mark.parametrize("line", [b"nonsense\n", b'{"type": "Ready"}\n', b'{"type": "Rea'])
def test_a_child_that_sends_no_valid_message_counts_as_exited(line: bytes) -> None:
    script = f"import sys; sys.stdout.buffer.write({line!r}); sys.stdout.flush(); sys.stdin.read()"
    child = ChildProcess([sys.executable, "-c", script])
    if not line.endswith(b"\n"):
        child.finish()
    assert child.receive() is None
    assert child.end() == 0


def test_notifications_are_lines_of_json() -> None:
    assert encode(Notification("executions", "s")) == (
        b'{"type":"Ring","domain":"executions","stream":"s"}\n'
    )


async def test_the_failure_of_a_domain_is_kept_until_that_domain_has_published(
    runtime: Runtime,
) -> None:
    failing = WORKING.replace(
        "for line in sys.stdin:",
        'failed = {"type": "Failed", "what": "compaction of search", "error": "Invalid"}\n'
        'print(json.dumps({**failed, "domains": ["search"]}), flush=True)\n'
        "for line in sys.stdin:",
    )
    async with supervising(runtime, failing, behind=True) as supervised:
        await supervised.until(WorkFailed)
        assert supervised.supervisor.failures == {"search": CompactionFailure("Invalid")}
        supervised.supervisor.notify("executions", "stream")
        await supervised.until(CyclePublished)
        assert supervised.supervisor.failures.keys() == {"search"}
        supervised.supervisor.notify("search", "stream")
        await supervised.until(CyclePublished, 2)
        assert supervised.supervisor.failures == {}
        memory = supervised.supervisor.memory()
        assert memory["driver"] > 0
        assert memory["jvm"] == 0
