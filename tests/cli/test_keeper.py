"""The keeper of a child, with real processes that do nothing but say that they do."""

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
from arco.cli.tier2.keeper import Care, Died, Keeper
from arco.cli.tier2.process import Process
from arco.cli.tier2.wire import Cycled, Failed, Ready, Ring, Said, encode
from arco.core.errors import Unavailable
from arco.core.runtime import Runtime
from arco.ledger.segment import Segment
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
    """A keeper, its children, and all that was heard."""

    keeper: Keeper
    children: list[Process] = field(default_factory=list)
    heard: list[Said | Died] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    async def until(self, kind: type, count: int = 1) -> None:
        async def look() -> bool:
            return sum(isinstance(each, kind) for each in self.heard) >= count

        await eventually(look, within_s=30)

    def domains(self) -> list[str]:
        return [each.cycle.domain for each in self.heard if isinstance(each, Cycled)]


@asynccontextmanager
async def keeping(
    runtime: Runtime, script: str, care: Care | None = None, *, behind: bool = False
) -> AsyncIterator[Watched]:
    children: list[Process] = []

    def start() -> Process:
        children.append(Process([sys.executable, "-c", script]))
        return children[-1]

    async def is_behind() -> bool:
        return behind

    heard: list[Said | Died] = []
    problems: list[str] = []
    keeper = Keeper(
        start,
        runtime,
        care=care or Care(),
        is_behind=is_behind,
        heard=heard.append,
        tell=lambda what, _problem: problems.append(what),
    )
    keeper.open()
    try:
        yield Watched(keeper, children, heard, problems)
    finally:
        await keeper.close()
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
        watched.keeper.ring("executions", "s")
        await watched.until(Ready)
        assert len(watched.children) == 1


async def test_a_ledger_that_is_ahead_at_the_start_gets_a_child_unrung(runtime: Runtime) -> None:
    async with keeping(runtime, OBEDIENT, behind=True) as watched:
        await watched.until(Ready)


async def test_what_is_rung_for_comes_down_and_what_was_done_comes_up(runtime: Runtime) -> None:
    async with keeping(runtime, OBEDIENT, Care(at_once=True)) as watched:
        await watched.until(Ready)
        for domain in ("executions", "lineage", "executions", "executions"):
            watched.keeper.ring(domain, "s")
        await watched.until(Cycled, 2)
        assert sorted(watched.domains()) == [
            "executions",
            "lineage",
        ]  # once each: they came together
        assert watched.keeper.is_up


async def test_small_segments_are_handed_down_with_the_news(runtime: Runtime) -> None:
    counting = OBEDIENT.replace(
        'domain = json.loads(line)["domain"]',
        'ring = json.loads(line); domain = ring["domain"]; '
        'cycle["files"] = sum(len(each["raw"]) for each in ring.get("segments", []))',
    )
    async with keeping(runtime, counting, Care(at_once=True)) as watched:
        await watched.until(Ready)
        for seq in range(2):
            watched.keeper.ring("executions", "s", Segment("s", seq, False, b"x" * 30))
        await watched.until(Cycled, 1)
        watched.keeper.ring("executions", "s", Segment("s", 2, False, b"x" * 1_000_000))
        await watched.until(Cycled, 2)
        files = [each.cycle.files for each in watched.heard if isinstance(each, Cycled)]
        assert files == [2 * 40, 0]  # in base64; the large one is read from the store


async def test_a_child_that_is_killed_is_replaced_and_rings_reach_the_new_one(
    runtime: Runtime,
) -> None:
    async with keeping(runtime, OBEDIENT, Care(at_once=True)) as watched:
        await watched.until(Ready)
        os.kill(watched.children[0].pid, signal.SIGKILL)
        await watched.until(Died)
        assert not watched.keeper.is_up
        await watched.until(Ready, 2)
        watched.keeper.ring("search", "s")
        await watched.until(Cycled)
        assert watched.domains() == ["search"]
        assert watched.keeper.deaths == 0


async def test_a_child_that_never_comes_up_is_tried_ever_more_rarely(runtime: Runtime) -> None:
    async with keeping(runtime, HOPELESS, Care(at_once=True)) as watched:
        await watched.until(Died, 3)
        pauses = [each.again_ms for each in watched.heard if isinstance(each, Died)]
        assert pauses[0] < pauses[1] < pauses[2]
        assert watched.keeper.problem == Failed("Spark", "Unavailable")


async def test_after_a_long_silence_there_is_none_and_the_next_ring_brings_one(
    runtime: Runtime,
) -> None:
    async with keeping(runtime, OBEDIENT, Care(idle_ms=200)) as watched:
        watched.keeper.ring("executions", "s")
        await watched.until(Ready)

        async def is_gone() -> bool:
            return not watched.keeper.has_child

        await eventually(is_gone)
        assert not any(isinstance(each, Died) for each in watched.heard)
        watched.keeper.ring("executions", "s")
        await watched.until(Ready, 2)
        assert len(watched.children) == 2


async def test_one_that_is_still_on_its_way_or_has_much_to_do_is_not_idle(
    runtime: Runtime,
) -> None:
    slow = OBEDIENT.replace("import json, sys", "import json, sys, time; time.sleep(1)")
    async with keeping(runtime, slow, Care(at_once=True, idle_ms=100)) as watched:
        await watched.until(Ready)  # it took ten times as long
    async with keeping(runtime, OBEDIENT, Care(idle_ms=100), behind=True) as watched:
        await watched.until(Ready)
        await asyncio.sleep(0.5)
        assert watched.keeper.has_child
        assert len(watched.children) == 1


async def test_one_that_does_not_come_up_in_time_is_given_up(runtime: Runtime) -> None:
    silent = "import sys; sys.stdin.read()"
    async with keeping(runtime, silent, Care(at_once=True, start_ms=200)) as watched:
        await watched.until(Died)
        assert Failed("Spark", "TimeoutError", "it did not start in time") in watched.heard
        assert watched.keeper.state == "restarting"


async def test_a_child_that_hears_nothing_is_killed_after_a_few_seconds(runtime: Runtime) -> None:
    began = time.monotonic()
    async with keeping(runtime, DEAF, Care(at_once=True)) as watched:
        await watched.until(Ready)
        for number in range(5_000):
            watched.keeper.ring("executions", f"stream-{number}")  # more than a pipe holds
        await asyncio.sleep(0.2)
    assert time.monotonic() - began < 20


async def test_a_look_that_fails_is_told_and_ends_nothing(runtime: Runtime) -> None:
    heard: list[Said | Died] = []
    problems: list[str] = []

    async def is_behind() -> bool:
        raise Unavailable("the store is away")

    keeper = Keeper(
        lambda: Process([sys.executable, "-c", OBEDIENT]),
        runtime,
        care=Care(),
        is_behind=is_behind,
        heard=heard.append,
        tell=lambda what, _problem: problems.append(what),
    )
    keeper.open()
    await asyncio.sleep(0.1)
    assert problems == ["looking at the ledger"]
    keeper.ring("executions", "s")

    async def is_up() -> bool:
        return keeper.is_up

    await eventually(is_up)
    await keeper.close()


@pytest.mark.parametrize("line", [b"nonsense\n", b'{"type": "Ready"}\n', b'{"type": "Rea'])
def test_a_child_that_says_what_nobody_understands_counts_as_gone(line: bytes) -> None:
    script = f"import sys; sys.stdout.buffer.write({line!r}); sys.stdout.flush(); sys.stdin.read()"
    child = Process([sys.executable, "-c", script])
    if not line.endswith(b"\n"):
        child.finish()
    assert child.listen() is None
    assert child.end() == 0


def test_rings_are_lines_of_json() -> None:
    assert encode(Ring("executions", "s")) == (
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
    async with keeping(runtime, failing, Care(at_once=True)) as watched:
        await watched.until(Failed)
        assert watched.keeper.failures == {"search": CompactionFailure("Invalid")}
        watched.keeper.ring("executions", "stream")
        await watched.until(Cycled)
        assert watched.keeper.failures.keys() == {"search"}
        watched.keeper.ring("search", "stream")
        await watched.until(Cycled, 2)
        assert watched.keeper.failures == {}
        memory = watched.keeper.memory()
        assert memory["driver"] > 0
        assert memory["jvm"] == 0
