"""The server: takes connections, finds the dialect, delivers, answers, counts.

As a process: ``python -m tests.faults.server --port 9000`` prints its address and serves until
it is stopped; its script is then changed through ``/_faults``.
"""

import argparse
import asyncio
import contextlib
import socket
import struct
import threading
from collections import Counter

from tests.faults import control
from tests.faults.azure import Azure
from tests.faults.backend import Backend
from tests.faults.delivery import Delivery, deliver
from tests.faults.dialect import Dialect
from tests.faults.gcs_json import GcsJson, is_json_api
from tests.faults.gcs_xml import GcsXml
from tests.faults.http import (
    BadRequest,
    Request,
    Response,
    dribble_response,
    read_request,
    write_response,
)
from tests.faults.operation import Operation
from tests.faults.result import Refusal, Refused, Result
from tests.faults.s3 import S3
from tests.faults.script import Fault, Modes, Rule, Script

GCS_PREFIX = "/_gcs"
AZURE_PREFIX = "/_azure"
# How much a connection buffers before it tells its client to wait.
_BUFFER_BYTES = 1024 * 1024


class FaultServer:
    """One backend, one script and the connections to them. Lives in one event loop."""

    def __init__(self, modes: Modes | None = None, seed: int = 0) -> None:
        self.script = Script(modes, seed)
        self.backend = Backend(self.script.modes)
        self._counts: Counter[tuple[str, str]] = Counter()
        self._names: Counter[tuple[str, str]] = Counter()
        self._counts_lock = threading.Lock()

    async def listen(self, port: int) -> asyncio.Server:
        """Take connections on the port, or on a free one for 0, until the server is closed."""
        return await asyncio.start_server(self._connected, "127.0.0.1", port, limit=_BUFFER_BYTES)

    def counts(self) -> dict[tuple[str, str], int]:
        """Requests by verb and outcome: the status answered, or the name of the fault."""
        with self._counts_lock:
            return dict(self._counts)

    def names(self) -> dict[tuple[str, str], int]:
        """Requests by verb and name of the object."""
        with self._counts_lock:
            return dict(self._names)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            # A client may vanish at any point; for a server of faults that is no event. Nor is
            # the end of the server: asyncio would log a connection that ends as cancelled.
            with contextlib.suppress(
                ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError
            ):
                while await self._serve_one(reader, writer):
                    pass
        finally:
            writer.close()

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Serve the next request; False where the connection is at its end."""
        try:
            request = await read_request(reader, writer)
        except (BadRequest, ValueError, asyncio.LimitOverrunError) as error:
            await _send(writer, None, Response(400, body=str(error).encode()))
            return False
        if request is None:
            return False
        if request.path == control.PATH:
            answer = control.answer_control(request, self.script, self.counts())
            return await _send(writer, request, answer)
        return await self._serve_object(request, reader, writer)

    async def _serve_object(
        self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        dialect, request = _dialect(request)
        operation = _read(dialect, request)
        if isinstance(operation, Refused):
            self._count("unread", operation.refusal.name.lower())
            return await _send(writer, request, dialect.refuse(operation.refusal, str(operation)))
        delivery = deliver(operation, self.script.pick(operation), self.backend.apply)
        response = _response(dialect, request, operation, delivery.result)
        self._count(operation.verb, _outcome(delivery, response), *operation.keys[:1])
        if response is None:
            await _end(reader, writer, delivery.fault)
            return False
        if delivery.fault is not None and delivery.fault.fault is Fault.SLOW_BODY:
            return await _dribble(writer, request, response, delivery.fault)
        return await _send(writer, request, response)

    def _count(self, verb: str, outcome: str, name: str = "") -> None:
        with self._counts_lock:
            self._counts[str(verb), outcome] += 1
            self._names[str(verb), name] += 1


def _dialect(request: Request) -> tuple[Dialect, Request]:
    if request.path.startswith(AZURE_PREFIX + "/"):
        return Azure(), request.below(AZURE_PREFIX)
    if request.path.startswith(GCS_PREFIX + "/"):
        below = request.below(GCS_PREFIX)
        return (GcsJson() if is_json_api(below.path) else GcsXml()), below
    return S3(), request


def _read(dialect: Dialect, request: Request) -> Operation | Refused:
    try:
        return dialect.read(request)
    except Refused as refused:
        return refused
    except (KeyError, ValueError) as error:
        # A parameter that is missing or is not a number: the client's fault, in any dialect.
        return Refused(Refusal.MALFORMED, repr(error))


def _response(
    dialect: Dialect, request: Request, operation: Operation, result: Result | None
) -> Response | None:
    match result:
        case None:
            return None
        case Refusal():
            return dialect.refuse(result, f"{operation.verb} {' '.join(operation.keys)}")
    return dialect.answer(request, operation, result)


def _outcome(delivery: Delivery, response: Response | None) -> str:
    if delivery.fault is not None:
        return delivery.fault.fault.value
    assert response is not None
    return str(response.status)


async def _send(writer: asyncio.StreamWriter, request: Request | None, response: Response) -> bool:
    """Answer, and tell whether the connection goes on."""
    keep_alive = request is not None and request.keeps_alive
    with_body = request is None or request.method != "HEAD"
    await write_response(writer, response, with_body=with_body, keep_alive=keep_alive)
    return keep_alive


async def _dribble(
    writer: asyncio.StreamWriter, request: Request, response: Response, rule: Rule
) -> bool:
    with_body = request.method != "HEAD"
    pause_s = rule.pause_ms / 1000
    await dribble_response(
        writer, response, with_body=with_body, pieces=rule.pieces, pause_s=pause_s
    )
    return request.keeps_alive


async def _end(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, rule: Rule | None
) -> None:
    """Give no answer: wait until the client gives up, or end the connection now."""
    assert rule is not None
    if rule.fault is Fault.HANG:
        while await reader.read(_BUFFER_BYTES):
            pass
    elif rule.reset:
        # To close a socket that lingers for no time sends a reset.
        connection: socket.socket = writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()


async def _run(port: int, modes: Modes, seed: int) -> None:
    listening = await FaultServer(modes, seed).listen(port)
    host, bound_port = listening.sockets[0].getsockname()
    print(f"http://{host}:{bound_port}", flush=True)
    async with listening:
        await listening.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.server", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0, the default, takes a free one")
    parser.add_argument("--seed", type=int, default=0, help="of the chance in the fault script")
    parser.add_argument("--ignore-conditions", action="store_true")
    parser.add_argument("--writes-per-second-per-name", type=float, default=None)
    options = parser.parse_args()
    modes = Modes(
        ignore_conditions=options.ignore_conditions,
        writes_per_second_per_name=options.writes_per_second_per_name,
    )
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_run(options.port, modes, options.seed))


if __name__ == "__main__":
    main()
