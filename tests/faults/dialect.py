"""What a dialect is, and the HTTP headers that all of them read alike."""

import re
from typing import Protocol

from tests.faults.http import Request, Response
from tests.faults.objects import Condition
from tests.faults.operation import ByteRange, Operation
from tests.faults.result import Refusal, Refused, Success


class Dialect(Protocol):
    """One store's way of asking and answering over HTTP."""

    def read(self, request: Request) -> Operation:
        """What the request asks for; raises Refused if it asks for nothing known."""
        ...

    def answer(self, request: Request, operation: Operation, result: Success) -> Response:
        """The store's answer to an operation that succeeded with this result."""
        ...

    def refuse(self, refusal: Refusal, detail: str) -> Response:
        """The store's answer to an operation, or to no operation at all, that did not."""
        ...


def not_implemented(request: Request) -> Refused:
    """The error for a request outside the dialect: a missing capability must be seen."""
    return Refused(Refusal.NOT_IMPLEMENTED, f"{request.method} {request.path} {request.query}")


def unexpected(operation: Operation, result: Success) -> AssertionError:
    return AssertionError(f"{operation!r} cannot result in {result!r}")


def read_range(request: Request) -> ByteRange | None:
    """The range asked for, or None for the whole object."""
    header = request.headers.get("x-ms-range") or request.headers.get("range")
    if header is None:
        return None
    match = re.fullmatch(r"bytes=(\d*)-(\d*)", header)
    if match is None or match[0] == "bytes=-":
        raise Refused(Refusal.MALFORMED, f"range {header}")
    first, last = match.groups()
    if not first:
        return ByteRange(suffix=int(last))
    return ByteRange(int(first), int(last) if last else None)


def content_range(span: tuple[int, int], size: int) -> str:
    return f"bytes {span[0]}-{span[1] - 1}/{size}"


def read_etag(header: str | None) -> str | None:
    """An entity tag without its quotes."""
    return None if header is None else header.strip().removeprefix("W/").strip('"')


def write_condition(request: Request) -> Condition:
    """The condition of a write by entity tag; `If-None-Match: *` asks that there be nothing."""
    unless = read_etag(request.headers.get("if-none-match"))
    return Condition(
        if_absent=unless == "*",
        if_etag=read_etag(request.headers.get("if-match")),
        unless_etag=None if unless == "*" else unless,
    )


def read_condition(request: Request) -> Condition:
    """The condition of a read by entity tag."""
    return Condition(
        if_etag=read_etag(request.headers.get("if-match")),
        unless_etag=read_etag(request.headers.get("if-none-match")),
    )


def read_cursor(token: str) -> str:
    """Where a listing goes on, from the token that the page before gave out."""
    try:
        return bytes.fromhex(token).decode()
    except ValueError:
        raise Refused(Refusal.MALFORMED, f"page token {token}") from None


def page_token(resume_at: str) -> str:
    """A token for a place in a listing. Hexadecimal, so that no transport needs to escape it."""
    return resume_at.encode().hex()
