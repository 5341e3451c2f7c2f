"""Scratch files of the local store: files that are being written (P4).

Where the kernel has O_TMPFILE, a file without a name is used, and a crash leaves nothing. Elsewhere, and
for hints, a scratch name has the host, the process and its start time, so that the next start removes only
the files of dead processes.
"""

import os
import socket
import threading
from contextlib import suppress
from itertools import count
from pathlib import Path
from urllib.parse import quote, unquote

PRIVATE = ".arco"  # below the root, beside the tenants: scratch files and the installation's key
SCRATCH = (PRIVATE, "scratch")  # on the same file system as the objects

_MODE = 0o644
_counter = count()


def scratch_name() -> str:
    """A name that no other process and no other thread uses."""
    owner = f"{quote(socket.gethostname(), safe='')}~{os.getpid()}~{_start_time(os.getpid())}"
    return f"{owner}~{threading.get_ident()}-{next(_counter)}"


def open_unnamed(directory_fd: int) -> int | None:
    """A writable file without a name in that directory, or None where the kernel has none."""
    flag = getattr(os, "O_TMPFILE", 0)
    if not flag:
        return None
    try:
        return os.open(".", flag | os.O_WRONLY | os.O_CLOEXEC, _MODE, dir_fd=directory_fd)
    except OSError:  # a file system without O_TMPFILE answers with one of several numbers
        return None


def open_named(name: str, directory_fd: int) -> int:
    """A new writable file of that name in that directory."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(name, flags, _MODE, dir_fd=directory_fd)


def remove_named(name: str, directory_fd: int) -> None:
    """Remove a scratch file, if it still exists."""
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=directory_fd)


def write_all(fd: int, body: bytes) -> None:
    """Write every byte; one write call may take only a part."""
    view = memoryview(body)
    while view:
        view = view[os.write(fd, view) :]


def sweep(directory_fd: int) -> int:
    """Remove scratch files of dead processes of this host; the number removed."""
    abandoned = [name for name in os.listdir(directory_fd) if _is_abandoned(name)]
    for name in abandoned:
        remove_named(name, directory_fd)
    return len(abandoned)


def _is_abandoned(name: str) -> bool:
    host, _, rest = name.partition("~")
    pid, _, rest = rest.partition("~")
    started, _, _ = rest.partition("~")
    if unquote(host) != socket.gethostname() or not (pid.isascii() and pid.isdigit()):
        return False  # of another machine, or no scratch file
    return _start_time(int(pid)) != started


def _start_time(pid: int) -> str:
    """When a process started, in ticks since boot; `alive` or `dead` where that cannot be read."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
        return stat.rpartition(")")[2].split()[19]
    except (FileNotFoundError, ProcessLookupError):  # the latter if it dies while we read
        if Path("/proc/self/stat").exists():
            return "dead"
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return "dead"
    except PermissionError:
        return "alive"
    return "alive"
