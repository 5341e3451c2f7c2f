"""A load on an HTTP server from other processes, so that only the server is measured.

`python -m bench.load` reads a plan from stdin, carries it out over HTTP/1.1 connections that are kept
alive, and prints the outcome. `load` runs as many of these as there are processors, each with a share of
the connections, and adds up. What the clients use themselves is not counted.
"""

import contextlib
import itertools
import os
import random
import socket
import subprocess
import sys
import time
from collections import Counter, deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from bench.process import Server
from bench.process_tree import Meter

_BUFFER_BYTES = 1 << 18
_HEAD_END = b"\r\n\r\n"
_LENGTH = b"content-length:"
_TIMEOUT_S = 300.0


class Read(msgspec.Struct, frozen=True, kw_only=True):
    """GETs of these paths by turns; on each connection one is always under way."""

    paths: tuple[str, ...]
    headers: dict[str, str] = {}
    status: int = 200


class Write(msgspec.Struct, frozen=True, kw_only=True):
    """POSTs that change something: each writer sends one to one of the paths and awaits its answer.

    In bodies and in `undo`, `@writer@` and `@count@` become the number of the writer and how many it has
    sent. With `undo`, the writer deletes after each POST what that has made, untimed.
    """

    paths: tuple[str, ...]
    bodies: tuple[str, ...]
    undo: tuple[str, ...] = ()


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What to send where, for so many seconds or until there are so many answers."""

    port: int
    connections: int
    seconds: float = 0.0
    count: int | None = None
    warm_s: float = 0.0  # the same before, not counted
    headers: dict[str, str] = {}
    first: int = 0  # the number of the first connection
    read: Read | None = None
    write: Write | None = None


class Outcome(msgspec.Struct, kw_only=True):
    """What a client was answered."""

    answered: int  # as expected
    seconds: float
    statuses: dict[int, int] = {}
    ms: list[float] = []  # of writes, and of reads on one connection
    error: str = ""  # by the first write that was refused
    last: dict[
        str, dict[int, int]
    ] = {}  # for each path and writer, the last count that was confirmed


@dataclass(frozen=True)
class Load:
    """A load as it was measured."""

    rate: float  # requests with the expected answer, a second
    ms: list[float]
    statuses: Counter[int]
    error: str
    last: dict[str, dict[int, int]]
    cpu_ms: float  # of all processes of the server, for each such request
    root_cpu_ms: float  # of the process that answers alone
    switches: float  # voluntary context switches of the server, for each such request
    peak_rss_bytes: int
    other_cores: float  # what other programs used meanwhile

    @property
    def refused(self) -> int:
        """Answers that were no success."""
        return sum(count for status, count in self.statuses.items() if status >= 400)


def load(server: Server, plan: Plan) -> Load:
    """Carry out a plan with all processors."""
    shares = _shares(plan, min(os.cpu_count() or 1, plan.connections))
    with _clients(shares) as clients, Meter(server.pid) as meter:
        for client in clients:
            _send_line(client, "go")
        outcomes = [_outcome(client) for client in clients]
    answered = max(1, sum(each.answered for each in outcomes))
    statuses: Counter[int] = Counter()
    last: dict[str, dict[int, int]] = {}
    for outcome in outcomes:
        statuses.update(outcome.statuses)
        _add_last(last, outcome.last)
    return Load(
        rate=sum(each.answered / each.seconds for each in outcomes),
        ms=[ms for each in outcomes for ms in each.ms],
        statuses=statuses,
        error=next((each.error for each in outcomes if each.error), ""),
        last=last,
        cpu_ms=meter.cpu_s / answered * 1000,
        root_cpu_ms=meter.root_cpu_s / answered * 1000,
        switches=meter.switches / answered,
        peak_rss_bytes=meter.peak_rss_bytes,
        other_cores=meter.other_cores,
    )


def _shares(plan: Plan, processes: int) -> list[Plan]:
    """The plan of each client: its share of the connections, and of the count."""
    shares, first = [], 0
    for number in range(processes):
        connections = (plan.connections - first) // (processes - number)
        count = None
        if plan.count is not None:
            end = plan.count * (first + connections) // plan.connections
            count = end - plan.count * first // plan.connections
        share = msgspec.structs.replace(plan, connections=connections, first=first, count=count)
        shares.append(share)
        first += connections
    return shares


@contextlib.contextmanager
def _clients(plans: list[Plan]) -> Iterator[list["subprocess.Popen[str]"]]:
    """A client for each plan, all of them warmed up; they wait to be sent a line."""
    command = [sys.executable, "-m", "bench.load"]
    with ExitStack() as stack:
        clients = []
        for _ in plans:
            client = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            stack.enter_context(client)
            stack.callback(client.kill)  # of one that has ended, it does nothing
            clients.append(client)
        for client in clients:
            _await_line(client, "ready")  # so that they begin together
        for client, plan in zip(clients, plans, strict=True):
            _send_line(client, msgspec.json.encode(plan).decode())
        for client in clients:
            _await_line(client, "warm")
        yield clients


def _send_line(client: "subprocess.Popen[str]", line: str) -> None:
    if client.stdin is None:
        raise AssertionError("a client has no stdin")
    client.stdin.write(f"{line}\n")
    client.stdin.flush()


def _await_line(client: "subprocess.Popen[str]", line: str) -> None:
    if client.stdout is None or client.stdout.readline() != f"{line}\n":
        raise AssertionError("a client has ended: see what it printed above")


def _outcome(client: "subprocess.Popen[str]") -> Outcome:
    text = client.stdout.readline() if client.stdout is not None else ""
    if not text:
        raise AssertionError("a client has ended: see what it printed above")
    return msgspec.json.decode(text, type=Outcome)


def _add_last(total: dict[str, dict[int, int]], part: dict[str, dict[int, int]]) -> None:
    for path, counts in part.items():
        total.setdefault(path, {}).update(counts)


class Answer(NamedTuple):
    """One answer."""

    status: int
    head: bytes
    body: bytes

    def header(self, name: str) -> str:
        """The value of a header; empty if there is none."""
        for line in self.head.decode("latin-1").split("\r\n")[1:]:
            key, _, value = line.partition(":")
            if key.lower() == name:
                return value.strip()
        return ""


class Connection:
    """One connection that is kept alive."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=_TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._scratch = memoryview(bytearray(_BUFFER_BYTES))

    def send(self, request: bytes) -> None:
        """Send a request."""
        self._socket.sendall(request)

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def answer(self, *, keep: bool = True) -> Answer:
        """The answer; a body of known length that is not kept costs next to nothing."""
        raw = self._more()
        while (end := raw.find(_HEAD_END)) < 0:
            raw += self._more()
        head, body = raw[:end], raw[end + len(_HEAD_END) :]
        status = int(head[9:12])
        if status in {204, 304}:
            return Answer(status, head, b"")
        lowered = head.lower()
        if (at := lowered.find(_LENGTH)) < 0:
            if b"transfer-encoding: chunked" not in lowered:
                raise AssertionError(f"the length of the answer is not known: {head!r}")
            return Answer(status, head, self._chunks(body))
        missing = int(lowered[at + len(_LENGTH) :].split(b"\r", 1)[0]) - len(body)
        if missing and not keep and status < 400:
            self._skip(missing)
        elif missing:
            body += self._exactly(missing)
        return Answer(status, head, body)

    def _chunks(self, start: bytes) -> bytes:
        data = bytearray(start)
        parts: list[bytes] = []
        while True:
            while (end := data.find(b"\r\n")) < 0:
                data += self._more()
            size = int(bytes(data[:end]).split(b";")[0], 16)
            past = end + 2 + size + 2
            if past > len(data):
                data += self._exactly(past - len(data))
            if not size:
                return b"".join(parts)
            parts.append(bytes(data[end + 2 : past - 2]))
            del data[:past]

    def _more(self) -> bytes:
        more = self._socket.recv(_BUFFER_BYTES)
        if not more:
            raise AssertionError("the server hung up")
        return more

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            more = self._socket.recv(min(_BUFFER_BYTES, size - len(data)))
            if not more:
                raise AssertionError("the server hung up")
            data += more
        return bytes(data)

    def _skip(self, size: int) -> None:
        while size:
            got = self._socket.recv_into(self._scratch[:size])
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


class _Reader:
    """All connections of a client that reads, in turns."""

    def __init__(self, plan: Plan, read: Read) -> None:
        headers = {**plan.headers, **read.headers}
        raw = [request("GET", path, headers) for path in read.paths]
        self._requests = itertools.cycle(raw)
        self._status = read.status
        self._connections = [Connection(plan.port) for _ in range(plan.connections)]

    def run(self, seconds: float, count: int | None) -> Outcome:
        """Read, and receive the last answers: the server must not still work on them afterwards."""
        ms: list[float] = []
        is_timed = len(self._connections) == 1
        began = sent_s = time.perf_counter()
        until = began + seconds
        pending = deque(self._connections)
        for connection in pending:
            connection.send(next(self._requests))
        sent, answered = len(pending), 0
        while pending:
            connection = pending.popleft()
            status, _, body = connection.answer(keep=False)
            if status != self._status:
                raise AssertionError(f"{status}: {body[:300]!r}")
            answered += 1
            now = time.perf_counter()
            if is_timed:
                ms.append((now - sent_s) * 1000)
                sent_s = now
            if now < until if count is None else sent < count:
                connection.send(next(self._requests))
                pending.append(connection)
                sent += 1
        taken = time.perf_counter() - began
        return Outcome(answered=answered, seconds=taken, statuses={self._status: answered}, ms=ms)


class _Writers:
    """All connections of a client that writes, each in a thread."""

    def __init__(self, plan: Plan, write: Write) -> None:
        numbers = range(plan.first, plan.first + plan.connections)
        self._writers = [_Writer(plan, write, number) for number in numbers]

    def run(self, seconds: float, count: int | None) -> Outcome:
        """Write until the time is over, or so often in all."""
        turns = iter(range(count)) if count is not None else None
        with ThreadPoolExecutor(len(self._writers)) as threads:
            running = [threads.submit(each.run, seconds, turns) for each in self._writers]
            parts = [each.result() for each in running]
        statuses: Counter[int] = Counter()
        last: dict[str, dict[int, int]] = {}
        for part in parts:
            statuses.update(part.statuses)
            _add_last(last, part.last)
        return Outcome(
            answered=sum(each.answered for each in parts),
            seconds=max(each.seconds for each in parts),
            statuses=dict(statuses),
            ms=[ms for each in parts for ms in each.ms],
            error=next((each.error for each in parts if each.error), ""),
            last=last,
        )


class _Writer:
    """One connection that writes."""

    def __init__(self, plan: Plan, write: Write, number: int) -> None:
        self._write = write
        self._headers = plan.headers
        self._number = number
        self._rng = random.Random(number)
        self._connection = Connection(plan.port)
        self._sent = 0

    def run(self, seconds: float, turns: Iterator[int] | None) -> Outcome:
        """Write for a while, or as long as there are turns, which all writers share."""
        outcome = Outcome(answered=0, seconds=0, statuses={}, ms=[], last={})
        began = time.perf_counter()
        while self._goes_on(began + seconds, turns):
            self._sent += 1
            at = self._rng.randrange(len(self._write.paths))
            path, body = self._write.paths[at], self._filled(self._write.bodies[at])
            raw = request("POST", path, self._headers, body.encode())
            sent_s = time.perf_counter()
            self._connection.send(raw)
            status, _, answer = self._connection.answer(keep=False)
            outcome.ms.append((time.perf_counter() - sent_s) * 1000)
            self._note(outcome, path, status, answer)
            if self._write.undo and status < 300:
                self._delete(self._filled(self._write.undo[at]))
        outcome.seconds = time.perf_counter() - began
        return outcome

    @staticmethod
    def _goes_on(until: float, turns: Iterator[int] | None) -> bool:
        if turns is None:
            return time.perf_counter() < until
        return next(turns, None) is not None

    def _filled(self, template: str) -> str:
        return template.replace("@writer@", str(self._number)).replace("@count@", str(self._sent))

    def _delete(self, path: str) -> None:
        self._connection.send(request("DELETE", path, self._headers))
        status, _, answer = self._connection.answer()
        if status >= 300:
            raise AssertionError(f"DELETE {path}: {status} {answer[:300]!r}")

    def _note(self, outcome: Outcome, path: str, status: int, answer: bytes) -> None:
        outcome.statuses[status] = outcome.statuses.get(status, 0) + 1
        if status < 300:
            outcome.answered += 1
            outcome.last.setdefault(path, {})[self._number] = self._sent
        elif not outcome.error:
            outcome.error = f"{status}: {answer[:300].decode('utf-8', 'replace')}"


def main() -> None:
    """Carry out a part of a plan: warm up, wait for a line, measure."""
    print("ready", flush=True)
    plan = msgspec.json.decode(sys.stdin.readline(), type=Plan)
    client: _Reader | _Writers
    if plan.read is not None:
        client = _Reader(plan, plan.read)
    elif plan.write is not None:
        client = _Writers(plan, plan.write)
    else:
        raise AssertionError("the plan neither reads nor writes")
    if plan.warm_s:
        client.run(plan.warm_s, None)
    print("warm", flush=True)
    sys.stdin.readline()
    outcome = client.run(plan.seconds, plan.count)
    print(msgspec.json.encode(outcome).decode(), flush=True)


if __name__ == "__main__":
    main()
