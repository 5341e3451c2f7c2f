"""What a process and all below it use: processor time, memory and context switches. Linux only."""

import os
import threading
import time
from collections import defaultdict
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

_PROC = Path("/proc")
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_MEMORY_EVERY_S = 0.25


class ProcessStat(NamedTuple):
    """One process, as its `stat` file has it."""

    parent: int
    own_cpu_s: float  # of all its threads, those that ended too
    children_cpu_s: float  # of children that ended and were waited for, and of theirs
    rss_bytes: int


def process_tree(root: int) -> dict[int, ProcessStat]:
    """A process and all that live below it, by their ids; empty if it ended."""
    stats: dict[int, ProcessStat] = {}
    children: dict[int, list[int]] = defaultdict(list)
    for name in os.listdir(_PROC):  # noqa: PTH208 - four times a second, beside what is measured
        if name.isdigit() and (stat := _stat(name)) is not None:
            stats[int(name)] = stat
            children[stat.parent].append(int(name))
    tree, pending = {}, [root] if root in stats else []
    while pending:
        pid = pending.pop()
        tree[pid] = stats[pid]
        pending += children[pid]
    return tree


def cpu_s(root: int) -> float:
    """The processor time that a tree has used so far, with that of processes that ended."""
    stats = process_tree(root).values()
    return sum(stat.own_cpu_s + stat.children_cpu_s for stat in stats)


class Meter:
    """What a tree uses while the `with` block runs, and what programs outside of the benchmark use."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._ended = threading.Event()
        self._memory = threading.Thread(target=self._watch_memory)
        self.cpu_s = 0.0
        self.root_cpu_s = 0.0  # of the first process alone
        self.switches = 0  # voluntary, of threads that live at the end
        self.peak_rss_bytes = 0  # of all processes at once; pages that they share count for each
        self.other_cores = 0.0

    def __enter__(self) -> Self:
        self._memory.start()
        self._before = _Reading(self._root)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        before, after = self._before, _Reading(self._root)
        self._ended.set()
        self._memory.join()
        self.cpu_s = after.cpu_s - before.cpu_s
        self.root_cpu_s = after.root_cpu_s - before.root_cpu_s
        self.switches = sum(
            count - before.switches.get(thread, 0) for thread, count in after.switches.items()
        )
        busy_s = after.busy_s - before.busy_s - (after.bench_cpu_s - before.bench_cpu_s)
        other_cores = busy_s / (after.time_s - before.time_s)
        self.other_cores = min(max(0.0, other_cores), float(os.cpu_count() or 1))

    def _watch_memory(self) -> None:
        has_ended = False
        while True:
            tree = process_tree(self._root)
            rss_bytes = sum(stat.rss_bytes for stat in tree.values())
            self.peak_rss_bytes = max(self.peak_rss_bytes, rss_bytes)
            if has_ended:
                return
            has_ended = self._ended.wait(_MEMORY_EVERY_S)


class _Reading:
    """The counters at one moment."""

    def __init__(self, root: int) -> None:
        tree = process_tree(root)
        self.time_s = time.perf_counter()
        self.cpu_s = sum(stat.own_cpu_s + stat.children_cpu_s for stat in tree.values())
        self.root_cpu_s = tree[root].own_cpu_s
        self.switches = {thread: count for pid in tree for thread, count in _switches(pid)}
        self.bench_cpu_s = cpu_s(os.getpid())  # with the server and the clients
        total = (_PROC / "stat").read_text().splitlines()[0].split()
        user, nice, system, _, _, irq, softirq, steal = map(int, total[1:9])
        self.busy_s = (user + nice + system + irq + softirq + steal) / _TICKS


def _stat(pid: str) -> ProcessStat | None:
    try:
        fields = (_PROC / pid / "stat").read_text().rpartition(")")[2].split()
    except OSError:  # it ended in between
        return None
    own, children = int(fields[11]) + int(fields[12]), int(fields[13]) + int(fields[14])
    rss_bytes = int(fields[21]) * _PAGE_BYTES
    return ProcessStat(int(fields[1]), own / _TICKS, children / _TICKS, rss_bytes)


def _switches(pid: int) -> list[tuple[int, int]]:
    """Voluntary context switches of each thread: the process' own file has those of its first alone."""
    counted = []
    for thread in (_PROC / str(pid) / "task").glob("*"):
        try:
            status = (thread / "status").read_text()
        except OSError:
            continue
        count = status.partition("\nvoluntary_ctxt_switches:")[2].partition("\n")[0]
        counted.append((int(thread.name), int(count)))
    return counted
