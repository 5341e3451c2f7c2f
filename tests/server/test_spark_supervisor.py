"""The supervisor of a child, with real processes that do nothing but say that they do."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from arco.api.compaction import CompactionFailure
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

# Says that it is ready, and of every ring that it is a cycle of that domain.
OBEDIENT = """
import json, sys
print(json.dumps({"type": "Ready", "ms": 1}), flush=True)
cycle = {"kind": "fold", "manifest": 1, "counts": {"events": 1}, "files": 1, "size_bytes": 10}
for line in sys.stdin:
    domain = json.loads(line)["domain"]
    done = {**cycle, "domain": domain, "phases_ms": {"fold": 2}, "lag_ms": 3}
    print(json.dumps({"type": "Cycled", "cycle": done}), flush=True)
"""
HOPELESS = """
print('{"type": "Failed", "what": "Spark", "error": "Unavailable"}', flush=True)
"""
DEAF = """
import time
print('{"type": "Ready", "ms": 1}', flush=True)
time.sleep(600)
"""


@dataclass
class Watched:
    """A supervisor, its children, and all that was heard."""

    supervisor: SparkSupervisor
    children: list[ChildProcess] = field(default_factory=list)
    heard: list[ChildMessage | ChildExited] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    async def until(self, kind: type, count: int = 1) -> None:
        async def look() -> bool:
            return sum(isinstance(each, kind) for each in self.heard) >= count

        await eventually(look, within_s=30)

    def domains(self) -> list[str]:
        return [each.cycle.domain for each in self.heard if isinstance(each, CyclePublished)]


@asynccontextmanager
async def keeping(
    runtime: Runtime, script: str, policy: ChildPolicy | None = None, *, behind: bool = False
) -> AsyncIterator[Watched]:
    children: list[ChildProcess] = []

    def start() -> ChildProcess:
        children.append(ChildProcess([sys.executable, "-c", script]))
        return children[-1]

    async def is_behind() -> bool:
        return behind

    heard: list[ChildMessage | ChildExited] = []
    problems: list[str] = []
    supervisor = SparkSupervisor(
        start,
        runtime,
        policy=policy or ChildPolicy(),
        is_behind=is_behind,
        report=heard.append,
        failed=lambda what, _problem: problems.append(what),
    )
    async with supervisor.running():
        yield Watched(supervisor, children, heard, problems)
    assert not any(_lives(child.pid) for child in children)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_there_is_no_child_before_there_is_something_to_do(runtime: Runtime) -> None:
    async with keeping(runtime, OBEDIENT) as watched:
        await asyncio.sleep(0.3)
        assert watched.children == []
        watched.supervisor.notify("executions", "s")
        await watched.until(SparkReady)
        assert len(watched.children) == 1


async def test_a_ledger_that_is_ahead_at_the_start_gets_a_child_unrung(runtime: Runtime) -> None:
    async with keeping(runtime, OBEDIENT, behind=True) as watched:
        await watched.until(SparkReady)


async def test_what_is_rung_for_comes_down_and_what_was_done_comes_up(runtime: Runtime) -> None:
    async with keeping(runtime, OBEDIENT, ChildPolicy(start_at_once=True)) as watched:
        await watched.until(SparkReady)
        for domain in ("executions", "lineage", "executions", "executions"):
            watched.supervisor.notify(domain, "s")
        await watched.until(CyclePublished, 2)
        assert sorted(watched.domains()) == [
            "executions",
            "lineage",
        ]  # once each: they came together
        assert watched.supervisor.is_up


async def test_small_segments_are_handed_down_with_the_news(runtime: Runtime) -> None:
    counting = OBEDIENT.replace(
        'domain = json.loads(line)["domain"]',
        'ring = json.loads(line); domain = ring["domain"]; '
        'cycle["files"] = sum(len(each["raw"]) for each in ring.get("segments", []))',
    )
    async with keeping(runtime, counting, ChildPolicy(start_at_once=True)) as watched:
        await watched.until(SparkReady)
        for seq in range(2):
            watched.supervisor.notify("executions", "s", Segment("s", seq, False, b"x" * 30))
        await watched.until(CyclePublished, 1)
        watched.supervisor.notify("executions", "s", Segment("s", 2, False, b"x" * 1_000_000))
        await watched.until(CyclePublished, 2)
        files = [each.cycle.files for each in watched.heard if isinstance(each, CyclePublished)]
        assert files == [2 * 40, 0]  # in base64; the large one is read from the store


async def test_a_child_that_is_killed_is_replaced_and_rings_reach_the_new_one(
    runtime: Runtime,
) -> None:
    async with keeping(runtime, OBEDIENT, ChildPolicy(start_at_once=True)) as watched:
        await watched.until(SparkReady)
        os.kill(watched.children[0].pid, signal.SIGKILL)
        await watched.until(ChildExited)
        assert not watched.supervisor.is_up
        await watched.until(SparkReady, 2)
        watched.supervisor.notify("search", "s")
        await watched.until(CyclePublished)
        assert watched.domains() == ["search"]
        assert watched.supervisor.exits == 0


async def test_a_child_that_never_comes_up_is_tried_ever_more_rarely(runtime: Runtime) -> None:
    async with keeping(runtime, HOPELESS, ChildPolicy(start_at_once=True)) as watched:
        await watched.until(ChildExited, 3)
        pauses = [each.restart_ms for each in watched.heard if isinstance(each, ChildExited)]
        assert pauses[0] < pauses[1] < pauses[2]
        assert watched.supervisor.problem == WorkFailed("Spark", "Unavailable")


async def test_after_a_long_silence_there_is_none_and_the_next_ring_brings_one(
    runtime: Runtime,
) -> None:
    async with keeping(runtime, OBEDIENT, ChildPolicy(idle_ms=200)) as watched:
        watched.supervisor.notify("executions", "s")
        await watched.until(SparkReady)

        async def is_gone() -> bool:
            return not watched.supervisor.has_child

        await eventually(is_gone)
        assert not any(isinstance(each, ChildExited) for each in watched.heard)
        watched.supervisor.notify("executions", "s")
        await watched.until(SparkReady, 2)
        assert len(watched.children) == 2


async def test_one_that_is_still_on_its_way_or_has_much_to_do_is_not_idle(
    runtime: Runtime,
) -> None:
    slow = OBEDIENT.replace("import json, sys", "import json, sys, time; time.sleep(1)")
    async with keeping(runtime, slow, ChildPolicy(start_at_once=True, idle_ms=100)) as watched:
        await watched.until(SparkReady)  # it took ten times as long
    async with keeping(runtime, OBEDIENT, ChildPolicy(idle_ms=100), behind=True) as watched:
        await watched.until(SparkReady)
        await asyncio.sleep(0.5)
        assert watched.supervisor.has_child
        assert len(watched.children) == 1


async def test_one_that_does_not_come_up_in_time_is_given_up(runtime: Runtime) -> None:
    silent = "import sys; sys.stdin.read()"
    async with keeping(
        runtime, silent, ChildPolicy(start_at_once=True, start_timeout_ms=200)
    ) as watched:
        await watched.until(ChildExited)
        assert WorkFailed("Spark", "TimeoutError", "it did not start in time") in watched.heard
        assert watched.supervisor.state == "restarting"


async def test_a_child_that_hears_nothing_is_killed_after_a_few_seconds(runtime: Runtime) -> None:
    began = time.monotonic()
    async with keeping(runtime, DEAF, ChildPolicy(start_at_once=True)) as watched:
        await watched.until(SparkReady)
        for number in range(5_000):
            watched.supervisor.notify("executions", f"stream-{number}")  # more than a pipe holds
        await asyncio.sleep(0.2)
    assert time.monotonic() - began < 20


async def test_a_look_that_fails_is_told_and_ends_nothing(runtime: Runtime) -> None:
    heard: list[ChildMessage | ChildExited] = []
    problems: list[str] = []

    async def is_behind() -> bool:
        raise Unavailable("the store is away")

    supervisor = SparkSupervisor(
        lambda: ChildProcess([sys.executable, "-c", OBEDIENT]),
        runtime,
        policy=ChildPolicy(),
        is_behind=is_behind,
        report=heard.append,
        failed=lambda what, _problem: problems.append(what),
    )

    async def is_up() -> bool:
        return supervisor.is_up

    async with supervisor.running():
        await asyncio.sleep(0.1)
        assert problems == ["looking at the ledger"]
        supervisor.notify("executions", "s")
        await eventually(is_up)


@pytest.mark.parametrize("line", [b"nonsense\n", b'{"type": "Ready"}\n', b'{"type": "Rea'])
def test_a_child_that_says_what_nobody_understands_counts_as_gone(line: bytes) -> None:
    script = f"import sys; sys.stdout.buffer.write({line!r}); sys.stdout.flush(); sys.stdin.read()"
    child = ChildProcess([sys.executable, "-c", script])
    if not line.endswith(b"\n"):
        child.finish()
    assert child.receive() is None
    assert child.end() == 0


def test_rings_are_lines_of_json() -> None:
    assert encode(Notification("executions", "s")) == (
        b'{"type":"Ring","domain":"executions","stream":"s"}\n'
    )


async def test_the_failure_of_a_domain_is_kept_until_that_domain_has_published(
    runtime: Runtime,
) -> None:
    failing = OBEDIENT.replace(
        "for line in sys.stdin:",
        'failed = {"type": "Failed", "what": "compaction of search", "error": "Invalid"}\n'
        'print(json.dumps({**failed, "domains": ["search"]}), flush=True)\n'
        "for line in sys.stdin:",
    )
    async with keeping(runtime, failing, ChildPolicy(start_at_once=True)) as watched:
        await watched.until(WorkFailed)
        assert watched.supervisor.failures == {"search": CompactionFailure("Invalid")}
        watched.supervisor.notify("executions", "stream")
        await watched.until(CyclePublished)
        assert watched.supervisor.failures.keys() == {"search"}
        watched.supervisor.notify("search", "stream")
        await watched.until(CyclePublished, 2)
        assert watched.supervisor.failures == {}
        memory = watched.supervisor.memory()
        assert memory["driver"] > 0
        assert memory["jvm"] == 0
