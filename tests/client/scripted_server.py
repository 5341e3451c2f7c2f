"""A server that answers by a script, and a proxy that loses answers: what a network does to a client."""

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Reply:
    """One answer; without a status the connection is cut instead."""

    status: int | None
    body: bytes = b"{}"
    content_type: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)


CUT = Reply(None)


@dataclass(frozen=True)
class Asked:
    """One request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Script:
    """The replies that are left, and what was asked; the last reply is given again and again."""

    url: str
    replies: list[Reply]
    asked: list[Asked] = field(default_factory=list)


@contextmanager
def scripted(*replies: Reply) -> Iterator[Script]:
    """A server on this machine that gives these replies in turn."""
    script = Script("", list(replies))

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            size = int(self.headers.get("Content-Length", "0"))
            headers = {name.lower(): value for name, value in self.headers.items()}
            script.asked.append(Asked(self.command, self.path, headers, self.rfile.read(size)))
            reply = script.replies.pop(0) if len(script.replies) > 1 else script.replies[0]
            if reply.status is None:
                self.close_connection = True
                return
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            if reply.status != 204:
                self.send_header("Content-Type", reply.content_type)
                self.send_header("Content-Length", str(len(reply.body)))
            self.end_headers()
            if reply.status != 204:
                self.wfile.write(reply.body)

        do_GET = do_POST = do_PATCH = do_DELETE = answer  # noqa: N815 - the library's names

        def log_message(self, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        script.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield script
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def losing_answers(url: str, count: int) -> Iterator[str]:
    """A way to the server at `url` on which its first `count` answers are lost once they were given."""
    upstream = urlsplit(url)

    def serve(listener: socket.socket) -> None:
        lost = 0
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return  # closed
            with client, socket.create_connection((upstream.hostname, upstream.port)) as server:
                server.sendall(_read_request(client))
                answer = server.recv(65_536)
                if lost < count:
                    lost += 1
                else:
                    client.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
    thread.join()


def _read_request(client: socket.socket) -> bytes:
    """A request with its body, in however many pieces it comes."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += client.recv(65_536)
    head, _, body = data.partition(b"\r\n\r\n")
    lengths = re.findall(rb"content-length: *([0-9]+)", head.lower())
    while len(body) < int(lengths[0] if lengths else 0):
        body += client.recv(65_536)
    return head + b"\r\n\r\n" + body
