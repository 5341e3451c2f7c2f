"""The memory limit of Spark's Python workers: a worker above it ends itself, and only its task fails.

Without a limit the kernel would kill some process of the machine, perhaps the JVM. The limit is on resident
memory. RLIMIT_AS and RLIMIT_DATA count reserved memory, which for Arrow and threads is many times more, and
a library whose allocations fail may hang.
"""

import os
import signal
import threading
from functools import cache
from pathlib import Path

LIMIT_VARIABLE = "ARCO_SPARK_WORKER_MEMORY_MB"

_MB = 1024 * 1024
_OTHERS_MB = 1_700  # the JVM with its heap of 1 GiB, and the processes of Arco
_MIN_MB = 768
_MAX_MB = 4_096
_CGROUPS = Path("/sys/fs/cgroup")
_POLL_S = 0.05


def default_limit_mb(cores: int) -> int:
    """The limit of each worker on this machine, with one worker per core."""
    return max(_MIN_MB, min(_MAX_MB, (machine_mb() - _OTHERS_MB) // max(1, cores)))


def max_workers() -> int:
    """How many workers with at least the smallest limit this machine has memory for."""
    return max(1, (machine_mb() - _OTHERS_MB) // _MIN_MB)


def machine_mb() -> int:
    """The memory of this machine, or of the container of this process."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min([total, *_cgroup_limits()]) // _MB


def limit_memory() -> None:
    """End this process once it uses more than `LIMIT_VARIABLE`; tasks call this in a worker."""
    _watch(os.getpid(), limit_mb())


def limit_mb() -> int:
    """The limit of this process; 0 for none."""
    limit_text = os.environ.get(LIMIT_VARIABLE, "")
    return int(limit_text) if limit_text.isascii() and limit_text.isdigit() else 0


@cache
def _watch(pid: int, most_mb: int) -> None:
    """Watch this process from a thread; started once per process."""
    if most_mb > 0:
        threading.Thread(target=_end_above, args=(pid, most_mb), daemon=True).start()


def _end_above(pid: int, most_mb: int) -> None:
    pause = threading.Event()  # is never set
    while used_mb() <= most_mb:
        pause.wait(_POLL_S)
    os.kill(pid, signal.SIGKILL)


def used_mb() -> int:
    """The resident memory of this process that is not shared."""
    _, resident, shared, *_ = Path("/proc/self/statm").read_text().split()
    return (int(resident) - int(shared)) * os.sysconf("SC_PAGE_SIZE") // _MB


def _cgroup_limits() -> list[int]:
    """The limits of all control groups of this process; none without control groups."""
    try:
        own = Path("/proc/self/cgroup").read_text().strip().rpartition("::")[2].lstrip("/")
    except OSError:
        return []
    folder, limits = _CGROUPS / own, []
    for each in (folder, *folder.parents):
        if not each.is_relative_to(_CGROUPS):
            break
        try:
            limits.append(int((each / "memory.max").read_text()))
        except (OSError, ValueError):
            continue  # no limit here: "max", or no such file
    return limits
