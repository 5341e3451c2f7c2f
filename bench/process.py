"""Servers as processes of their own: `arco up` on a directory, or any other that says when it is ready."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from bench.process_tree import cpu_s

PATIENCE_S = 60.0

_CALM_S = 120.0
_CALM_SHARE = 0.05  # of a processor

_FIRST_PORT = int(os.environ.get("BENCH_PORT", "0"))
_PORTS = 50

_ARCO = str(Path(sys.executable).parent / "arco")


@dataclass(frozen=True)
class Server:
    """A server process that listens."""

    pid: int
    port: int


def await_calm(server: Server, *, quiet_s: int = 8) -> None:
    """Wait until all processes of a server have had nothing to do for so long.

    After its start it looks through all that it has, and the first collection begins some seconds later.
    """
    until = time.monotonic() + _CALM_S
    quiet, before_s = 0, cpu_s(server.pid)
    while quiet < quiet_s:
        time.sleep(1)
        now_s = cpu_s(server.pid)
        quiet = quiet + 1 if now_s - before_s < _CALM_SHARE else 0
        before_s = now_s
        if time.monotonic() > until:
            print("  the server does not come to rest: it is measured as it is", file=sys.stderr)
            return


@contextlib.contextmanager
def arco_up(place: Path | str, *flags: str, spark: bool = False) -> Iterator[Server]:
    """`arco up` on a directory or the URL of a store, with Spark or without; it must stop cleanly."""
    where = ["--store", place] if isinstance(place, str) else ["--root", str(place)]
    [port] = free_ports(1)
    command = [_ARCO, "up", *where, "--port", str(port), *flags]
    with running(command, settings={"ARCO_NO_SPARK": "" if spark else "1"}) as process:
        ready = first_line(process)
        if f"http://127.0.0.1:{port}" not in ready:
            raise AssertionError(f"arco up printed: {ready!r}")
        yield Server(process.pid, port)


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


def free_ports(count: int) -> list[int]:
    """Ports that no program listens on: any, or the first ones from BENCH_PORT on."""
    tried = range(_FIRST_PORT, _FIRST_PORT + _PORTS) if _FIRST_PORT else [0] * count
    ports: list[int] = []
    with ExitStack() as stack:
        for port in tried:
            probe = stack.enter_context(socket.socket())
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                probe.bind(("", port))
                ports.append(probe.getsockname()[1])
            if len(ports) == count:
                return ports
    raise AssertionError(f"too few ports from {_FIRST_PORT} on are free: set BENCH_PORT")


def await_port(server: "subprocess.Popen[str]", port: int) -> None:
    """Wait until a server listens."""
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            if server.poll() is not None or time.monotonic() > until:
                message = f"the server does not listen on {port}: {server.args!r}"
                raise AssertionError(message) from None
            time.sleep(0.2)
        else:
            return


def first_line(process: "subprocess.Popen[str]") -> str:
    """What a process says first."""
    return process.stdout.readline() if process.stdout is not None else ""
