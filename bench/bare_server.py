"""The bare framework: Starlette on uvicorn, with one route whose answer is known beforehand.

`python -m bench.bare_server FILE` answers with the headers and the body in FILE, and prints its port. It
is set up as our own server is, less all that is ours.
"""

import socket
import sys
from pathlib import Path

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from arco.core.tasks import run


class Canned(msgspec.Struct):
    """What is answered, and to what."""

    path: str  # as Starlette writes it
    headers: dict[str, str]
    body: bytes


def main() -> None:
    """Serve until a signal."""
    canned = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Canned)

    async def answer(request: Request) -> Response:
        del request
        return Response(canned.body, headers=canned.headers)

    opened = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    opened.bind(("127.0.0.1", 0))
    config = uvicorn.Config(
        Starlette(routes=[Route(canned.path, answer)]),
        http="httptools",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
    )
    opened.listen(1_024)
    print(opened.getsockname()[1], flush=True)
    run(uvicorn.Server(config).serve(sockets=[opened]))


if __name__ == "__main__":
    main()
