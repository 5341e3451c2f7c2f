"""Processes: a worker as its engine sees it. All of this blocks, and is called in threads."""

import os
import subprocess
import sys
import weakref
from contextlib import suppress
from typing import BinaryIO, cast

from arco.core import json
from arco.core.errors import Unavailable
from arco.query.limits import Limits
from arco.query.wire import Asked, Greet, Offer, Result, Said, read_frame, write_message

# What allocators reserve ahead would count as used, and the limit of memory would mean nothing.
_SETTINGS = {"ARROW_DEFAULT_MEMORY_POOL": "system", "MIMALLOC_ARENA_RESERVE": "0"}


class Died(Exception):
    """The worker ended before it had replied."""


class Process:
    """One worker."""

    def __init__(self, limits: Limits) -> None:
        # Its environment is empty but for where our code lies: it shall hold no credentials.
        path = os.pathsep.join(each for each in sys.path if each)
        self._child = subprocess.Popen(
            [sys.executable, "-P", "-m", "arco.query.worker_main"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"PYTHONPATH": path, **_SETTINGS},
            cwd="/",
            start_new_session=True,  # an interrupt at the terminal is for us alone
        )
        self._asked = cast("BinaryIO", self._child.stdin)
        self._said = cast("BinaryIO", self._child.stdout)
        # Whoever forgets to close an engine leaves no process behind.
        self._end = weakref.finalize(self, _end, self._child)
        try:
            self.ask(Greet(limits=limits))
        except Died as problem:
            self.kill()
            raise Unavailable("the process that answers queries could not start") from problem

    def ask(self, message: Asked, data: bytes | None = None) -> tuple[Said, bytes]:
        """Its reply, and the data that the reply announces; `Died` if it is gone."""
        try:
            write_message(self._asked, message, data)
            said: Said = json.decode(read_frame(self._said), Said)  # type: ignore[arg-type]
            return said, read_frame(self._said) if isinstance(said, Result) else b""
        except (EOFError, OSError, ValueError) as problem:
            raise Died from problem

    def is_well(self) -> bool:
        """Whether it still replies."""
        try:
            self.ask(Offer(keys=()))
        except Died:
            return False
        return True

    def kill(self) -> None:
        """End it, whatever it does; a thread that waits for its reply gets `Died`."""
        self._end()


def _end(child: "subprocess.Popen[bytes]") -> None:
    child.kill()
    child.wait()
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            with suppress(OSError):  # what was still to be sent has nobody to read it
                pipe.close()
