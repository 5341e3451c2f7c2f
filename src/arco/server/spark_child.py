"""The Spark child of a server: the process that compacts events, and the messages between the two.

Messages are lines of JSON. Notifications of new segments go to the child's stdin; what it published and
what failed comes from its stdout. When its stdin ends, whether closed or because the parent was killed,
the child ends. All of `ChildProcess` blocks, and is called in threads.
"""

import os
import signal
import subprocess
import sys
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import BinaryIO, cast

import msgspec

from arco.compactor.domain_compactor import CycleReport
from arco.core import json
from arco.core.errors import Invalid
from arco.ledger.segment import Segment

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


_STOP_TIMEOUT_S = 5.0  # for a child to stop Spark and to exit


class SegmentBytes(msgspec.Struct, frozen=True):
    """A durable segment of a stream, with its bytes."""

    seq: int
    raw: bytes


class Notification(msgspec.Struct, frozen=True, tag="Ring", omit_defaults=True):
    """A stream of a domain has new segments; small ones are included.

    A lost notification costs time only: the segments are in the store too.
    """

    domain: str
    stream: str
    segments: tuple[SegmentBytes, ...] = ()

    def decoded_segments(self) -> list[Segment]:
        """The segments that the child need not read from the store."""
        return [Segment(self.stream, each.seq, False, each.raw) for each in self.segments]


class SparkReady(msgspec.Struct, frozen=True, tag="Ready"):
    """Spark is started and warm."""

    ms: int


class CyclePublished(msgspec.Struct, frozen=True, tag="Cycled"):
    """A cycle was published."""

    cycle: CycleReport


class WorkFailed(msgspec.Struct, frozen=True, tag="Failed", omit_defaults=True):
    """Work of the child failed: what, the type of the error, and its message as far as a log may hold it.

    `domains` are those whose last cycle failed.
    """

    what: str
    error: str
    detail: str = ""
    domains: tuple[str, ...] = ()


ChildMessage = SparkReady | CyclePublished | WorkFailed


def encode(message: Notification | ChildMessage) -> bytes:
    """The line of a message."""
    return json.encode(message) + b"\n"


def read_notification(stream: BinaryIO) -> Notification | None:
    """The next notification; None when the parent has closed the stream."""
    line = stream.readline()
    return json.decode(line, Notification) if line.endswith(b"\n") else None


def read_message(stream: BinaryIO) -> ChildMessage | None:
    """The next message of the child; None when it has exited."""
    line = stream.readline()
    message: ChildMessage | None = (
        json.decode(line, ChildMessage) if line.endswith(b"\n") else None  # type: ignore[arg-type]
    )
    return message


def worker_command(arguments: Sequence[str]) -> list[str]:
    """The command of a child, with the interpreter and the code of this process."""
    return [sys.executable, "-P", "-m", "arco.cli.main", "tier2-worker", *arguments]


class ChildProcess:
    """A child with a JVM and Spark's workers below it.

    It gets `environment`, or that of this process. With `inherit_stderr` it writes to the stderr of this
    process, where Spark logs at length.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        inherit_stderr: bool = False,
    ) -> None:
        # In a separate session: an interrupt at the terminal reaches this process alone, and the child
        # can be ended with all processes below it.
        self._child = subprocess.Popen(  # noqa: S603 - our own command
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if inherit_stderr else subprocess.DEVNULL,
            env=environment,
            bufsize=0,  # so that a child which does not read cannot block the closing of its stdin
            start_new_session=True,
        )
        self._stdin = cast("RawIOBase", self._child.stdin)
        self._stdout = BufferedReader(cast("RawIOBase", self._child.stdout))
        # A child that is never ended by its owner is killed with this object.
        self._kill = weakref.finalize(self, _kill, self._child)

    @property
    def pid(self) -> int:
        """The process id, which is also that of its group."""
        return self._child.pid

    def notify(self, notifications: Sequence[Notification]) -> None:
        """Send notifications; a child that has exited does not receive them."""
        left = memoryview(b"".join(map(encode, notifications)))
        with suppress(OSError, ValueError):  # it has exited, and `receive` is about to return None
            while left:
                left = left[self._stdin.write(left) or 0 :]

    def receive(self) -> ChildMessage | None:
        """The next message; None once the child has exited or has sent what is no message."""
        try:
            return read_message(self._stdout)
        except (Invalid, OSError, ValueError):
            return None

    def memory(self) -> Mapping[str, int]:
        """The memory of the child and of all below it, in bytes: driver, jvm, python_workers."""
        held = dict.fromkeys(("driver", "jvm", "python_workers"), 0)
        for each in processes_of_session(self.pid):
            is_driver = each.pid == self.pid
            kind = "driver" if is_driver else "jvm" if each.name == "java" else "python_workers"
            held[kind] += each.resident_bytes
        return held

    def finish(self) -> None:
        """Ask the child to exit, which ends its messages too."""
        with suppress(OSError, ValueError):
            self._stdin.close()

    def end(self) -> int:
        """Wait some seconds for its exit, then kill it and all below it; the exit code."""
        self.finish()
        with suppress(subprocess.TimeoutExpired):
            self._child.wait(_STOP_TIMEOUT_S)
        self._kill()
        return self._child.returncode


def _kill(child: "subprocess.Popen[bytes]") -> None:
    """Kill the whole group: a JVM that hangs would outlive its parent."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()
