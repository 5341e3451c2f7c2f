"""Azure's batch: many deletes in one request, as HTTP requests inside a multipart body.

The crate beneath obstore sends every delete this way, even of a single blob.
"""

import re
from urllib.parse import unquote

from tests.faults.dialect import not_implemented
from tests.faults.http import Request, Response
from tests.faults.operation import Delete
from tests.faults.result import Deleted, Refusal, Refused

_BOUNDARY = "batchresponse_00000000-0000-0000-0000-000000000000"


def read_batch(request: Request, container: str) -> Delete:
    """The deletes of a batch, in their order; any other request in it is refused."""
    content_type = request.headers.get("content-type", "")
    match = re.fullmatch(r"multipart/mixed; boundary=(\S+)", content_type)
    if match is None:
        raise Refused(Refusal.MALFORMED, f"batch of {content_type!r}")
    parts = request.body.decode().split(f"--{match[1]}\r\n")[1:]
    return Delete(bucket=container, keys=tuple(_key(request, part) for part in parts), batch=True)


def _key(request: Request, part: str) -> str:
    line = re.search(r"^DELETE (\S+) HTTP/1\.1\r$", part, re.MULTILINE)
    if line is None:
        raise not_implemented(request)
    # An inner address may start before the account, but goes on below the outer one.
    _, outer, key = line[1].partition("?")[0].partition(request.path.rstrip("/") + "/")
    if not outer:
        raise Refused(Refusal.MALFORMED, f"{line[1]} is not in {request.path}")
    return unquote(key)


def answer_batch(delete: Delete, deleted: Deleted) -> Response:
    """One inner answer for each delete, numbered as the requests were."""
    parts = [
        _part(number, missing=key in deleted.missing) for number, key in enumerate(delete.keys)
    ]
    body = "".join([*parts, f"--{_BOUNDARY}--\r\n"])
    headers = {"Content-Type": f"multipart/mixed; boundary={_BOUNDARY}"}
    return Response(202, headers, body.encode())


def _part(number: int, *, missing: bool) -> str:
    status = "404 The specified blob does not exist." if missing else "202 Accepted"
    error = "x-ms-error-code: BlobNotFound\r\n" if missing else ""
    return (
        f"--{_BOUNDARY}\r\n"
        "Content-Type: application/http\r\n"
        f"Content-ID: {number}\r\n"
        "\r\n"
        f"HTTP/1.1 {status}\r\n"
        f"{error}"
        "Content-Length: 0\r\n"
        "\r\n"
    )
