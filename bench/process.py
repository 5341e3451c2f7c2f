"""Servers as processes of their own: `arco up` on a directory, or any other that says when it is ready."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

PATIENCE_S = 60.0

_CALM_S = 600.0
_CALM_SHARE = 0.05  # of a processor
_QUIET_LOOKS = (
    8  # in a row, a second apart: the first collection begins a few seconds after the start
)

_ARCO = str(Path(sys.executable).parent / "arco")


@dataclass(frozen=True)
class Server:
    """A server process that listens."""

    pid: int
    port: int

    def cpu_s(self) -> float:
        """The processor time that it has used so far: all threads, and the programs that it has run."""
        stat = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, stat[11:15])) / os.sysconf("SC_CLK_TCK")


def await_calm(server: Server) -> None:
    """Wait until a server has nothing to do: after its start it looks through all that it has."""
    until = time.monotonic() + _CALM_S
    quiet, before_s = 0, server.cpu_s()
    while quiet < _QUIET_LOOKS:
        time.sleep(1)
        now_s = server.cpu_s()
        quiet = quiet + 1 if now_s - before_s < _CALM_SHARE else 0
        before_s = now_s
        if time.monotonic() > until:
            raise AssertionError(f"the server on port {server.port} does not come to rest")


@contextlib.contextmanager
def arco_up(place: Path | str, *flags: str, spark: bool = False) -> Iterator[Server]:
    """`arco up` on a directory or the URL of a store, with Spark or without; it must stop cleanly."""
    where = ["--store", place] if isinstance(place, str) else ["--root", str(place)]
    command = [_ARCO, "up", *where, "--port", "0", *flags]
    with running(command, settings={"ARCO_NO_SPARK": "" if spark else "1"}) as process:
        ready = first_line(process)
        match = re.search(r"http://127\.0\.0\.1:(\d+)", ready)
        if match is None:
            raise AssertionError(f"arco up printed: {ready!r}")
        yield Server(process.pid, int(match[1]))


@contextlib.contextmanager
def running(
    command: list[str], *, ends: tuple[int, ...] = (0,), settings: Mapping[str, str] | None = None
) -> Iterator["subprocess.Popen[str]"]:
    """A process; it is ended by SIGTERM, and must end with one of these codes."""
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, **(settings or {})},
    )
    with process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                code = process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
    if code not in ends:
        raise AssertionError(f"{command[0]} has ended with {code}")


def first_line(process: "subprocess.Popen[str]") -> str:
    """What a process says first."""
    return process.stdout.readline() if process.stdout is not None else ""
