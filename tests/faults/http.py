"""HTTP/1.1 on raw streams, as little as an object store's clients need.

Raw streams rather than a web framework, because a server that means to drop a connection after
applying a request must own the socket.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import format_datetime
from http import HTTPStatus
from urllib.parse import parse_qsl, unquote

_WRITE_BYTES = 256 * 1024


class BadRequest(Exception):
    """The bytes received are not an HTTP/1.1 request that this server reads."""


@dataclass(frozen=True, slots=True)
class Request:
    """A whole request. `path` is as sent: a dialect splits it before it decodes it, because a
    `%2F` inside a key is not a separator."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes = field(repr=False)
    # Scheme, host and any prefix that was cut off `path`: what an absolute URL here starts with.
    base: str = ""

    @property
    def keeps_alive(self) -> bool:
        return self.headers.get("connection", "").lower() != "close"

    def below(self, prefix: str) -> "Request":
        """The same request as seen from below a path prefix."""
        return replace(self, path=self.path.removeprefix(prefix), base=self.base + prefix)

    def segments(self, count: int) -> list[str]:
        """The path as `count` decoded segments: the last holds the rest, absent ones are empty."""
        parts = [unquote(part) for part in self.path.removeprefix("/").split("/", count - 1)]
        return parts + [""] * (count - len(parts))


@dataclass(frozen=True, slots=True)
class Response:
    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = field(default=b"", repr=False)
    # What a HEAD says of a body that it does not bring.
    described_bytes: int | None = None

    def head(self, *, keep_alive: bool) -> bytes:
        """The status line and the headers, encoded."""
        length = len(self.body) if self.described_bytes is None else self.described_bytes
        headers = {
            "Date": http_date(datetime.now(UTC)),
            "Connection": "keep-alive" if keep_alive else "close",
            **self.headers,
        }
        if self.status != HTTPStatus.NO_CONTENT:
            headers["Content-Length"] = str(length)
        lines = [f"HTTP/1.1 {self.status} {HTTPStatus(self.status).phrase}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        return "\r\n".join([*lines, "", ""]).encode("latin-1")


def http_date(moment: datetime) -> str:
    return format_datetime(moment.astimezone(UTC), usegmt=True)


async def read_request(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> Request | None:
    """The next request on the connection, or None where the client has hung up."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    request_line, *header_lines = head[:-4].decode("latin-1").split("\r\n")
    headers = dict(_header(line) for line in header_lines)
    try:
        method, target, _version = request_line.split(" ")
    except ValueError:
        raise BadRequest(request_line) from None
    if headers.get("expect", "").lower() == "100-continue":
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    path, _, query = target.partition("?")
    return Request(
        method,
        path,
        dict(parse_qsl(query, keep_blank_values=True)),
        headers,
        await _read_body(reader, headers),
        "http://" + headers.get("host", ""),
    )


def _header(line: str) -> tuple[str, str]:
    name, colon, value = line.partition(":")
    if not colon:
        raise BadRequest(line)
    return name.lower(), value.strip()


async def _read_body(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> bytes:
    if headers.get("transfer-encoding", "").lower() == "chunked":
        return await _read_chunks(reader)
    return await reader.readexactly(int(headers.get("content-length", "0")))


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    chunks: list[bytes] = []
    while size := int((await reader.readline()).split(b";")[0], 16):
        chunks.append(await reader.readexactly(size))
        await reader.readexactly(2)
    while (await reader.readline()).strip():
        pass  # trailers say nothing that the server needs
    return b"".join(chunks)


async def write_response(
    writer: asyncio.StreamWriter, response: Response, *, with_body: bool, keep_alive: bool
) -> None:
    body = memoryview(response.body if with_body else b"")
    # A small answer leaves in one segment; a large one must not be copied whole into a buffer.
    writer.write(response.head(keep_alive=keep_alive) + body[:_WRITE_BYTES])
    await writer.drain()
    for start in range(_WRITE_BYTES, len(body), _WRITE_BYTES):
        writer.write(body[start : start + _WRITE_BYTES])
        await writer.drain()


async def dribble_response(
    writer: asyncio.StreamWriter,
    response: Response,
    *,
    with_body: bool,
    pieces: int,
    pause_s: float,
) -> None:
    """Send an answer in pieces with a pause before each; one without a body, head and all."""
    head, body = response.head(keep_alive=True), response.body if with_body else b""
    if body:
        writer.write(head)
    slowly = body or head
    step = max(1, -(-len(slowly) // pieces))
    for start in range(0, len(slowly), step):
        await asyncio.sleep(pause_s)
        writer.write(slowly[start : start + step])
        await writer.drain()
