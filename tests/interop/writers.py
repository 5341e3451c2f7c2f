"""Several writers at once, each in a separate process, and the outcomes of their writes."""

import json
import select
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from tests.interop.rest import Rest


@dataclass(frozen=True)
class WriteOutcomes:
    """The ids that were acknowledged, and those whose outcome is unknown."""

    done: frozenset[int]
    unknown: frozenset[int]

    def faults(self, stored_ids: Sequence[int]) -> list[str]:
        """What is wrong with the ids that the table has in the end."""
        lost = self.done.difference(stored_ids)
        doubled = [each for each, count in Counter(stored_ids).items() if count > 1]
        unacknowledged = set(stored_ids) - self.done - self.unknown
        kinds = {"lost": lost, "doubled": doubled, "stored though refused": unacknowledged}
        return [f"{kind}: {sorted(ids)}" for kind, ids in kinds.items() if ids]


class Writers:
    """Processes of one module, each with its own server and its own range of ids."""

    def __init__(self, processes: Sequence[subprocess.Popen[str]]) -> None:
        self._processes = processes

    def are_busy(self) -> bool:
        """Whether all of them still write."""
        return all(process.poll() is None for process in self._processes)

    def outcomes(self) -> WriteOutcomes:
        """The outcomes once all processes have ended; those without a number of rows are stopped."""
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.close()
            process.stdin = None
        outputs = [self._read(process) for process in self._processes]
        return WriteOutcomes(
            frozenset(each for output in outputs for each in output["done"]),
            frozenset(each for output in outputs for each in output["unknown"]),
        )

    def _read(self, process: subprocess.Popen[str]) -> dict[str, list[int]]:
        output, _ = process.communicate()
        assert process.returncode == 0, "a writer failed; its stderr is above"
        ids_by_outcome: dict[str, list[int]] = json.loads(output)
        return ids_by_outcome


@contextmanager
def writing(
    module: str, servers: Sequence[Rest], target: str, *, count: int, rows: int = 0
) -> Iterator[Writers]:
    """Writers of `rows` rows each, or with 0 until `outcomes` stops them; none outlives the block."""
    with ExitStack() as stack:
        processes = []
        for each in range(count):
            server = servers[each % len(servers)]
            process = _start(module, server, target, 100_000 * (each + 1), rows)
            processes.append(stack.enter_context(process))
            stack.callback(process.kill)
        yield Writers(processes)


def _start(module: str, server: Rest, target: str, first: int, rows: int) -> subprocess.Popen[str]:
    command = [
        sys.executable,
        "-m",
        module,
        server.uri,
        server.warehouse,
        target,
        str(first),
        str(rows),
    ]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def write(first: int, rows: int, put: Callable[[int], str]) -> None:
    """Put row after row, and print which ids were `done` and which are `unknown`."""
    ids_by_outcome: dict[str, list[int]] = {"done": [], "unknown": []}
    for each in _numbers(first, rows):
        ids_by_outcome[put(each)].append(each)
    print(json.dumps(ids_by_outcome))


def _numbers(first: int, rows: int) -> Iterator[int]:
    each = first
    while not _is_closed() if rows == 0 else each < first + rows:
        yield each
        each += 1


def _is_closed() -> bool:
    """Whether the parent process has closed our stdin; it never writes to it."""
    return bool(select.select([sys.stdin], [], [], 0)[0])
