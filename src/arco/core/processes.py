"""The memory of the processes of one session, from Linux's /proc."""

import os
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_SESSION, _RSS = 3, 21  # of the fields after the name, in /proc/PID/stat


@dataclass(frozen=True)
class ProcessMemory:
    """One process: its name as the kernel has it, and its resident memory."""

    pid: int
    name: str
    resident_bytes: int


def processes_of_session(session: int) -> list[ProcessMemory]:
    """The processes of a session; none where the system has no /proc."""
    page_bytes = os.sysconf("SC_PAGE_SIZE")
    processes = []
    for stat in _PROC.glob("[0-9]*/stat"):
        try:
            before, _, after = stat.read_text(errors="replace").rpartition(")")
        except OSError:
            continue  # it has ended meanwhile
        fields = after.split()
        if len(fields) > _RSS and int(fields[_SESSION]) == session:
            name = before.partition("(")[2]
            processes.append(
                ProcessMemory(int(stat.parent.name), name, int(fields[_RSS]) * page_bytes)
            )
    return processes
