"""The local disk under real processes: races between them, and `kill -9` at any moment (P4)."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from arco.core.runtime import Runtime
from arco.core.scope import Scope
from arco.storage.chain import Chain
from arco.storage.local import LocalBackend
from arco.storage.roles import Role
from arco.storage.store import Store
from tests.figures import Figure
from tests.storage.processes import is_whole

COMMAND = [sys.executable, "-m", "tests.storage.processes"]
REPOSITORY = Path(__file__).parents[2]


def test_of_200_racers_in_8_processes_one_wins(tmp_path: Path, figure: Figure) -> None:
    processes, racers, rounds = 8, 25, 5
    command = [*COMMAND, "race", str(tmp_path), str(racers), str(rounds)]
    running = [
        subprocess.Popen(
            command, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(processes)
    ]
    for process in running:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in running:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    answers = [json.loads(process.communicate(timeout=60)[0]) for process in running]
    for number in range(rounds):
        winners = [name for answer in answers for name in answer[number]]
        assert len(winners) == 1
        assert (tmp_path / f"race/{number}").read_text() == winners[0]
    figure(
        f"local race: {processes * racers} racers in {processes} processes, 1 winner, {rounds} times"
    )


@pytest.mark.parametrize("files", ["unnamed", "named"])
async def test_kill_9_leaves_nothing_half_written_and_nothing_acknowledged_lost(
    tmp_path: Path, runtime: Runtime, figure: Figure, files: str
) -> None:
    await kill_and_audit(tmp_path, runtime, figure, files, kills=40)


@pytest.mark.interop
@pytest.mark.timeout(900)
@pytest.mark.parametrize("files", ["unnamed", "named"])
async def test_kill_9_a_thousand_times(
    tmp_path: Path, runtime: Runtime, figure: Figure, files: str
) -> None:
    await kill_and_audit(tmp_path, runtime, figure, files, kills=1_000)


async def kill_and_audit(
    root: Path, runtime: Runtime, figure: Figure, files: str, kills: int
) -> None:
    command = [*COMMAND, "kill", str(root), str(kills), "7", files]
    done = subprocess.run(command, cwd=REPOSITORY, check=True, stdout=subprocess.PIPE)
    report = json.loads(done.stdout)
    assert report["killed"] >= kills
    assert len(report["objects"]) > kills // 4  # or the kills came too early to mean anything
    backend = LocalBackend(root, runtime)
    store = Store(backend, runtime, scope=Scope(), role=Role.JANITOR)
    visible = {meta.key: await store.get(meta.key) async for meta in store.list("ledger/")}
    assert [key for key, body in visible.items() if not is_whole(body)] == []
    assert [key for key in report["objects"] if key not in visible] == []
    await audit_chain(Chain(store, "locks/shared"), report["numbers"])
    assert list((root / ".arco/scratch").iterdir()) == []
    assert files == "unnamed" or report["swept"] > 0
    figure(
        f"kill -9, {files} files: {report['killed']} kills, {len(report['objects'])} objects and "
        f"{len(report['numbers'])} numbers acknowledged, 0 lost, 0 half-written; "
        f"{report['swept'] + backend.swept} leftovers swept"
    )


async def audit_chain(chain: Chain, acknowledged: dict[str, str]) -> None:
    """Whole from 0 to its head, with every acknowledged number and no work in it twice."""
    head = await chain.head()
    bodies = [entry.body(str) for entry in await chain.history(0, head.number)]
    assert len(set(bodies)) == len(bodies)
    assert {number: bodies[int(number)] for number in acknowledged} == acknowledged
