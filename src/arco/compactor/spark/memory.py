"""The memory of Spark's Python workers: one that needs too much fails its own task, not the machine.

A worker may allocate so much and no more. What goes beyond it is a MemoryError in the worker, which is an
answer like any other; without a bound the kernel would kill some process of the machine, perhaps the JVM.
"""

import os
import resource
from pathlib import Path

VARIABLE = "ARCO_SPARK_WORKER_MEMORY_MB"

_MB = 1024 * 1024
_OTHERS_MB = 1_700  # the JVM with its heap of 1 GiB, and the processes of Arco
_LEAST_MB = 768
_MOST_MB = 4_096
_CGROUPS = Path("/sys/fs/cgroup")


def default_limit_mb(cores: int) -> int:
    """What each of the workers on this machine may have, one for each core."""
    return max(_LEAST_MB, min(_MOST_MB, (machine_mb() - _OTHERS_MB) // max(1, cores)))


def machine_mb() -> int:
    """The memory of this machine, or of the container that this process is in."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min([total, *_cgroup_limits()]) // _MB


def limit_memory() -> None:
    """Bound what this process may allocate, if `VARIABLE` says so: called by tasks, in a worker."""
    limit = int(os.environ.get(VARIABLE, "0")) * _MB
    if limit > 0:
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        if hard == resource.RLIM_INFINITY or hard > limit:
            resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))


def _cgroup_limits() -> list[int]:
    """The limits of all control groups that this process is in; none where there are no such groups."""
    try:
        own = Path("/proc/self/cgroup").read_text().strip().rpartition("::")[2].lstrip("/")
    except OSError:
        return []
    folder, found = _CGROUPS / own, []
    for each in (folder, *folder.parents):
        if not each.is_relative_to(_CGROUPS):
            break
        try:
            found.append(int((each / "memory.max").read_text()))
        except (OSError, ValueError):
            continue  # no limit here: "max", or no such file
    return found
