"""Several writers at once, each a process of its own, and what they were told."""

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
class Said:
    """What writers were told: the ids that were acknowledged, and those whose outcome is open."""

    done: frozenset[int]
    unknown: frozenset[int]

    def wrong(self, found: Sequence[int]) -> list[str]:
        """All that is wrong with the ids that are there in the end."""
        lost = self.done.difference(found)
        doubled = [each for each, count in Counter(found).items() if count > 1]
        strange = set(found) - self.done - self.unknown
        kinds = {"lost": lost, "doubled": doubled, "there though refused": strange}
        return [f"{kind}: {sorted(ids)}" for kind, ids in kinds.items() if ids]


class Writers:
    """So many processes of one module, each at a door of its own and with ids of its own."""

    def __init__(self, processes: Sequence[subprocess.Popen[str]]) -> None:
        self._processes = processes

    def are_busy(self) -> bool:
        """Whether all of them still write."""
        return all(process.poll() is None for process in self._processes)

    def said(self) -> Said:
        """What they were told, once all are done; those that would go on for ever are stopped."""
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.close()
            process.stdin = None
        told = [self._read(process) for process in self._processes]
        return Said(
            frozenset(each for one in told for each in one["done"]),
            frozenset(each for one in told for each in one["unknown"]),
        )

    def _read(self, process: subprocess.Popen[str]) -> dict[str, list[int]]:
        output, _ = process.communicate()
        assert process.returncode == 0, "a writer has failed; what it said is above"
        told: dict[str, list[int]] = json.loads(output)
        return told


@contextmanager
def writing(
    module: str, doors: Sequence[Rest], target: str, *, count: int, rows: int = 0
) -> Iterator[Writers]:
    """Writers of so many rows each or, with none said, until they are asked; none outlives the block."""
    with ExitStack() as stack:
        processes = []
        for each in range(count):
            process = _start(module, doors[each % len(doors)], target, 100_000 * (each + 1), rows)
            processes.append(stack.enter_context(process))
            stack.callback(process.kill)
        yield Writers(processes)


def _start(module: str, door: Rest, target: str, first: int, rows: int) -> subprocess.Popen[str]:
    command = [
        sys.executable,
        "-m",
        module,
        door.uri,
        door.warehouse,
        target,
        str(first),
        str(rows),
    ]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def write(first: int, rows: int, put: Callable[[int], str]) -> None:
    """The life of one writer: put row after row, and print which were `done` and which `unknown`."""
    told: dict[str, list[int]] = {"done": [], "unknown": []}
    for each in _numbers(first, rows):
        told[put(each)].append(each)
    print(json.dumps(told))


def _numbers(first: int, rows: int) -> Iterator[int]:
    each = first
    while not _is_closed() if rows == 0 else each < first + rows:
        yield each
        each += 1


def _is_closed() -> bool:
    """Whether whoever started us has closed our stdin: nothing is ever written to it."""
    return bool(select.select([sys.stdin], [], [], 0)[0])
