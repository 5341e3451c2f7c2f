"""A way to a server on which answers to commits are lost once they were given, as networks lose them."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

_NOT_OURS = frozenset({"host", "connection", "transfer-encoding", "content-length"})


class LossyWay:
    """A proxy at `url`. The answers to the next `to_lose` commits never arrive."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.to_lose = 0
        self.meanwhile: Callable[[], None] | None = None  # done once, before a commit is answered
        self.first: Callable[[], None] | None = (
            None  # done once, before a commit reaches the server
        )
        self.commits: list[int] = []  # the status of each commit that has reached the server

    def comes(self, method: str, path: str) -> None:
        """A request is about to reach the server."""
        if _is_commit(method, path):
            first, self.first = self.first, None
            if first is not None:
                first()

    def loses(self, method: str, path: str, status: int) -> bool:
        """Whether the answer to this request gets lost."""
        if not _is_commit(method, path):
            return False
        self.commits.append(status)
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            meanwhile()
        self.to_lose -= 1
        return self.to_lose >= 0


def _is_commit(method: str, path: str) -> bool:
    is_commit = method == "POST" and ("/tables/" in path or path.endswith("/commit"))
    return is_commit and not path.endswith("/metrics")


@contextmanager
def lossy_way(uri: str) -> Iterator[LossyWay]:
    """A way to the server at `uri`, until the block ends."""
    upstream = urlsplit(uri)
    way = LossyWay("")

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def forward(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            headers = {
                name: value for name, value in self.headers.items() if name.lower() not in _NOT_OURS
            }
            way.comes(self.command, self.path)
            server = HTTPConnection(upstream.hostname or "", upstream.port)
            server.request(self.command, self.path, body or None, headers)
            answer = server.getresponse()
            content = answer.read()
            server.close()
            if way.loses(self.command, self.path, answer.status):
                self.close_connection = True
                return
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in _NOT_OURS | {"date", "server"}:
                    self.send_header(name, value)
            if answer.status not in {204, 304}:
                self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        do_GET = do_HEAD = do_POST = do_DELETE = forward  # noqa: N815 - the library's names

        def log_message(self, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        way.url = f"http://127.0.0.1:{server.server_port}{upstream.path}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield way
        finally:
            server.shutdown()
            thread.join()
