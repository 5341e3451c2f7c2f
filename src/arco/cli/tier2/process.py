"""One child that compacts Tier 2, as its parent sees it. All of this blocks, and is called in threads."""

import os
import signal
import subprocess
import sys
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from io import BufferedReader, RawIOBase
from typing import Protocol, cast

from arco.cli.tier2.wire import Ring, Said, encode, read_said
from arco.core.errors import Invalid
from arco.core.processes import processes_of_session

_PATIENCE_S = 5.0  # that a child has to stop Spark and to leave


class Child(Protocol):
    """A process that folds what it is rung for, until it is told to finish."""

    def ring(self, rings: Sequence[Ring]) -> None:
        """Tell it of news; one that is gone does not hear them."""

    def listen(self) -> Said | None:
        """What it says next; None once it is gone."""

    def memory(self) -> Mapping[str, int]:
        """The memory of it and of all below it, in bytes, by kind: driver, jvm, python_workers."""

    def finish(self) -> None:
        """Ask it to end by itself, which closes what it says too."""

    def end(self) -> int:
        """Wait for its end, which it is given a few seconds for, and leave nothing of it behind."""


class Process:
    """A `Child` that is one, with a JVM and Spark's workers below it.

    It gets `environment`, or all of ours. `loud` lets it write to our stderr, where Spark tells at length
    what nobody but a developer wants.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        loud: bool = False,
    ) -> None:
        # In a session of its own an interrupt at the terminal is for us alone, and the child with all of
        # its own can be ended at once. When we die its stdin ends, and it with that.
        self._child = subprocess.Popen(  # noqa: S603 - our own command
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if loud else subprocess.DEVNULL,
            env=environment,
            bufsize=0,  # so that a child which hears nothing cannot keep us from closing its stdin
            start_new_session=True,
        )
        self._rung = cast("RawIOBase", self._child.stdin)
        self._said = BufferedReader(cast("RawIOBase", self._child.stdout))
        # Whoever forgets to end it leaves no process behind.
        self._kill = weakref.finalize(self, _kill, self._child)

    @property
    def pid(self) -> int:
        """The number of the process, which is that of its group too."""
        return self._child.pid

    def ring(self, rings: Sequence[Ring]) -> None:
        left = memoryview(b"".join(map(encode, rings)))
        with suppress(OSError, ValueError):  # it is gone, and whoever listens is about to hear it
            while left:
                left = left[self._rung.write(left) or 0 :]

    def listen(self) -> Said | None:
        try:
            return read_said(self._said)
        except (Invalid, OSError, ValueError):
            return None  # it has lost its mind, or is gone

    def memory(self) -> Mapping[str, int]:
        held = dict.fromkeys(("driver", "jvm", "python_workers"), 0)
        for each in processes_of_session(self.pid):
            is_driver = each.pid == self.pid
            kind = "driver" if is_driver else "jvm" if each.name == "java" else "python_workers"
            held[kind] += each.resident_bytes
        return held

    def finish(self) -> None:
        with suppress(OSError, ValueError):
            self._rung.close()

    def end(self) -> int:
        self.finish()
        with suppress(subprocess.TimeoutExpired):
            self._child.wait(_PATIENCE_S)
        self._kill()
        return self._child.returncode


def worker_command(arguments: Sequence[str]) -> list[str]:
    """The command of a child: our own, by the very interpreter and code that run here."""
    return [sys.executable, "-P", "-m", "arco.cli.main", "tier2-worker", *arguments]


def _kill(child: "subprocess.Popen[bytes]") -> None:
    """End the whole group: a JVM that hangs would outlive its parent."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()
