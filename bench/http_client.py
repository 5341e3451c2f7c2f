"""A client that costs as little as Python allows, in a process of its own: so that the server is measured.

`python -m bench.http_client PORT rate SECONDS CONNECTIONS PATH` prints the requests answered, and how many
a second that is.
`python -m bench.http_client PORT times` reads paths from stdin, asks for each in turn, prints ms as JSON.
"""

import json
import socket
import sys
import time

_HEAD_END = b"\r\n\r\n"
_LENGTH = b"content-length: "


class Connection:
    """One connection that is kept alive."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, request: bytes) -> None:
        """Send a request."""
        self._socket.sendall(request)

    def answer(self) -> bytes:
        """The whole answer, which must be 200."""
        raw = self._socket.recv(1 << 16)
        while _HEAD_END not in raw:
            raw += self._more()
        head, _, body = raw.partition(_HEAD_END)
        if not head.startswith(b"HTTP/1.1 200 "):
            raise AssertionError(raw[:500].decode("latin-1"))
        at = head.lower().index(_LENGTH) + len(_LENGTH)
        size = int(head[at:].split(b"\r", 1)[0])
        while len(body) < size:
            more = self._more()
            raw += more
            body += more
        return raw

    def expect(self, size_bytes: int) -> None:
        """An answer of a known size, of which only the first line is looked at."""
        raw = self._socket.recv(1 << 16)
        while len(raw) < size_bytes:
            raw += self._more()
        if len(raw) != size_bytes or raw[9:12] != b"200":
            raise AssertionError(raw[:500].decode("latin-1"))

    def _more(self) -> bytes:
        more = self._socket.recv(1 << 16)
        if not more:
            raise AssertionError("the server hung up")
        return more


def get(path: str) -> bytes:
    """A request for a path."""
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n".encode()


def rate(port: int, path: str, seconds: float, connections: int) -> tuple[int, float]:
    """Requests answered, all and a second, with one always under way on each connection."""
    request = get(path)
    all_of_them = [Connection(port) for _ in range(connections)]
    size = 0
    for each in all_of_them:
        each.ask(request)
        size = len(each.answer())
    for each in all_of_them:
        each.ask(request)
    answered, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        for each in all_of_them:
            each.expect(size)
            each.ask(request)
        answered += connections
    return answered, answered / (time.perf_counter() - began)


def times_ms(port: int, paths: list[str]) -> list[float]:
    """How long each path took, asked for one after the other."""
    connection = Connection(port)
    times = []
    for path in paths:
        began = time.perf_counter()
        connection.ask(get(path))
        connection.answer()
        times.append((time.perf_counter() - began) * 1000)
    return times


def main() -> None:
    """Do what the arguments say."""
    match sys.argv[1:]:
        case [port, "rate", seconds, connections, path]:
            print(json.dumps(rate(int(port), path, float(seconds), int(connections))))
        case [port, "times"]:
            print(json.dumps(times_ms(int(port), sys.stdin.read().split())))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
