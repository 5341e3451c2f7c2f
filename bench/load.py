"""A load on an HTTP server from processes of their own, so that the server is what is measured.

`python -m bench.load` reads a plan from stdin, carries it out and prints what came of it. `load` runs as
many of these as there are processors, each with a share of the connections, and adds up.
"""

import json
import os
import random
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass
from io import BufferedReader

import msgspec

from bench.process import Server

_BUFFER_BYTES = 1 << 18


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """The same request again and again, with one always under way on each connection."""

    path: str
    headers: dict[str, str] = {}
    status: int = 200


class Write(msgspec.Struct, frozen=True, kw_only=True):
    """Requests that change something: each writer sends one to one of the paths and awaits its answer.

    In `body`, `@writer@` and `@count@` become the number of the writer and how many it has sent.
    """

    paths: tuple[str, ...]
    bodies: tuple[str, ...]


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What to send where."""

    port: int
    seconds: float
    connections: int
    first: int = 0  # the number of the first connection
    ask: Ask | None = None
    write: Write | None = None


class Outcome(msgspec.Struct, kw_only=True):
    """What came of it."""

    answered: int
    seconds: float
    statuses: dict[int, int] = {}
    ms: list[float] = []
    error: str = ""  # by the first answer that was not 200
    last: dict[
        str, dict[int, int]
    ] = {}  # for each path and writer, the last count that was confirmed


@dataclass(frozen=True)
class Load:
    """A load as it was measured."""

    rate: float  # requests with the expected answer, a second
    cpu_ms: float  # of the server, for each of them
    ms: list[float]
    statuses: Counter[int]
    error: str
    last: dict[str, dict[int, int]]


def load(server: Server, plan: Plan) -> Load:
    """Carry out a plan with all processors."""
    count = min(os.cpu_count() or 1, plan.connections)
    each = plan.connections // count
    plans = [
        msgspec.structs.replace(plan, connections=each, first=number * each)
        for number in range(count)
    ]
    before_s = server.cpu_s()
    outcomes = _together(plans)
    cpu_s = server.cpu_s() - before_s
    answered = sum(each.answered for each in outcomes)
    statuses: Counter[int] = Counter()
    last: dict[str, dict[int, int]] = {}
    for outcome in outcomes:
        statuses.update(outcome.statuses)
        for path, counts in outcome.last.items():
            last.setdefault(path, {}).update(counts)
    return Load(
        rate=sum(each.answered / each.seconds for each in outcomes),
        cpu_ms=cpu_s / max(1, answered) * 1000,
        ms=[ms for each in outcomes for ms in each.ms],
        statuses=statuses,
        error=next((each.error for each in outcomes if each.error), ""),
        last=last,
    )


def _together(plans: list[Plan]) -> list[Outcome]:
    running = []
    for plan in plans:
        process = subprocess.Popen(
            [sys.executable, "-m", "bench.load"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        running.append((process, msgspec.json.encode(plan).decode()))
    for process, _ in running:  # so that they begin together
        if process.stdout is None or process.stdout.readline() != "ready\n":
            raise AssertionError("a client did not start")
    outputs = []
    for process, plan_text in running:
        if process.stdin is not None:
            process.stdin.write(plan_text)
            process.stdin.close()
    for process, _ in running:
        outputs.append(process.stdout.read() if process.stdout is not None else "")
        if process.wait() != 0:
            raise AssertionError(f"a client has ended with {process.returncode}")
    return [msgspec.json.decode(each, type=Outcome) for each in outputs]


class Connection:
    """One connection that is kept alive."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._file = BufferedReader(self._socket.makefile("rb", 0), _BUFFER_BYTES)
        self._scratch = memoryview(bytearray(_BUFFER_BYTES))

    def send(self, request: bytes) -> None:
        """Send a request."""
        self._socket.sendall(request)

    def close(self) -> None:
        """Hang up."""
        self._file.close()
        self._socket.close()

    def answer(self, *, keep: bool = True) -> tuple[int, dict[bytes, bytes], bytes]:
        """Status, headers and body; a body of known length that is not kept costs next to nothing."""
        status = int(self._file.readline().split(b" ", 2)[1])
        headers = {}
        while (line := self._file.readline()) not in {b"\r\n", b""}:
            name, _, value = line.partition(b":")
            headers[name.lower()] = value.strip()
        if b"content-length" in headers:
            size = int(headers[b"content-length"])
            if keep or status >= 400:
                return status, headers, self._file.read(size)
            self._skip(size)
            return status, headers, b""
        if headers.get(b"transfer-encoding") != b"chunked":
            return status, headers, b""
        parts = []
        while size := int(self._file.readline(), 16):
            parts.append(self._file.read(size))
            self._file.readline()
        self._file.readline()
        return status, headers, b"".join(parts)

    def _skip(self, size: int) -> None:
        while size:
            got = self._file.readinto(self._scratch[:size])
            if not got:
                raise AssertionError("the server hung up")
            size -= got


def request(method: str, path: str, headers: dict[str, str], body: bytes = b"") -> bytes:
    """A request as it is sent."""
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", "Accept: */*"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if body:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode() + body


def _ask(plan: Plan, ask: Ask) -> Outcome:
    raw = request("GET", ask.path, ask.headers)
    connections = [Connection(plan.port) for _ in range(plan.connections)]
    for each in connections:
        each.send(raw)
    answered, began = 0, time.perf_counter()
    while time.perf_counter() - began < plan.seconds:
        for each in connections:
            status, _, body = each.answer(keep=False)
            if status != ask.status:
                raise AssertionError(f"{status}: {body[:300]!r}")
            each.send(raw)
            answered += 1
    seconds = time.perf_counter() - began
    for each in connections:
        each.answer()  # or the server would still work on it while another is measured
    return Outcome(answered=answered, seconds=seconds, statuses={ask.status: answered})


class _Writer(threading.Thread):
    """One writer, on a connection of its own."""

    def __init__(self, plan: Plan, write: Write, number: int) -> None:
        super().__init__()
        self._plan = plan
        self._write = write
        self._number = number
        self._rng = random.Random(number)
        self.outcome = Outcome(answered=0, seconds=0)
        self.outcome.statuses, self.outcome.ms, self.outcome.last = {}, [], {}

    def run(self) -> None:
        """Write until the time is over."""
        connection, sent = Connection(self._plan.port), 0
        began = time.perf_counter()
        while (now := time.perf_counter()) - began < self._plan.seconds:
            sent += 1
            at = self._rng.randrange(len(self._write.paths))
            body = self._write.bodies[at].replace("@writer@", str(self._number))
            body = body.replace("@count@", str(sent))
            connection.send(request("POST", self._write.paths[at], {}, body.encode()))
            status, _, answer = connection.answer()
            self._note(self._write.paths[at], status, sent, answer)
            self.outcome.ms.append((time.perf_counter() - now) * 1000)
        self.outcome.seconds = time.perf_counter() - began

    def _note(self, path: str, status: int, sent: int, answer: bytes) -> None:
        outcome = self.outcome
        outcome.statuses[status] = outcome.statuses.get(status, 0) + 1
        if status == 200:
            outcome.answered += 1
            outcome.last.setdefault(path, {})[self._number] = sent
        elif not outcome.error:
            outcome.error = f"{status}: {answer[:300].decode('utf-8', 'replace')}"


def _write(plan: Plan, write: Write) -> Outcome:
    writers = [_Writer(plan, write, plan.first + n) for n in range(plan.connections)]
    for each in writers:
        each.start()
    for each in writers:
        each.join()
    parts = [each.outcome for each in writers]
    statuses: Counter[int] = Counter()
    last: dict[str, dict[int, int]] = {}
    for part in parts:
        statuses.update(part.statuses)
        for path, counts in part.last.items():
            last.setdefault(path, {}).update(counts)
    return Outcome(
        answered=sum(each.answered for each in parts),
        seconds=max(each.seconds for each in parts),
        statuses=dict(statuses),
        ms=[ms for each in parts for ms in each.ms],
        error=next((each.error for each in parts if each.error), ""),
        last=last,
    )


def main() -> None:
    """Do one part of a plan."""
    print("ready", flush=True)
    plan = msgspec.json.decode(sys.stdin.read(), type=Plan)
    if plan.ask is not None:
        outcome = _ask(plan, plan.ask)
    elif plan.write is not None:
        outcome = _write(plan, plan.write)
    else:
        raise AssertionError(f"there is nothing to do: {json.dumps(str(plan))}")
    sys.stdout.write(msgspec.json.encode(outcome).decode())


if __name__ == "__main__":
    main()
