"""The desk behind every handler: how a change is carried out, and how an answer is written."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec

from arco.api.etag import object_tag, snapshot_tag
from arco.api.problem import CONTENT_TYPE, encode_problem, headers_of, problem_of
from arco.api.reads import Reads
from arco.api.route import JSON, Call, Reply
from arco.api.services import Services
from arco.api.wire import Document
from arco.catalog.change import change, change_once
from arco.catalog.ddl import Ddl
from arco.catalog.done import Done
from arco.catalog.lookup import FoundObject
from arco.catalog.model import CatalogRow, Found, SchemaRow, TableRow
from arco.catalog.name import join_levels
from arco.catalog.snapshot import Snapshot
from arco.core import json
from arco.core.errors import ArcoError, Corrupt
from arco.core.hashing import sha256_hex
from arco.ledger.claim import Answer, key_path

R = TypeVar("R", CatalogRow, SchemaRow, TableRow)

API = "/api/v1"


@dataclass(frozen=True)
class Rendered:
    """How a change that was carried out is answered."""

    status: int
    document: Callable[[Done], Document] | None = None  # None: there is nothing to tell
    place: Callable[[Done], str] | None = None  # the URL of what was made

    def done(self, done: Done) -> Answer:
        """The answer to a request that was carried out."""
        headers = {"ETag": object_tag(done.object)}
        if self.place is not None:
            headers["Location"] = self.place(done)
        body = b"null" if self.document is None else json.encode(self.document(done))
        return Answer(status=self.status, body=msgspec.Raw(body), headers=headers)

    def refused(self, problem: ArcoError) -> Answer:
        """The answer to a request that was refused for good."""
        told = problem_of(problem)
        return Answer(
            status=told.status,
            body=msgspec.Raw(encode_problem(told)),
            headers=headers_of(problem),
        )


class Desk:
    """What handlers share."""

    def __init__(self, services: Services, reads: Reads) -> None:
        self.services = services
        self.reads = reads

    async def carry_out(self, call: Call[Any, Any], ddl: Ddl, rendered: Rendered) -> Reply:
        """Change the catalog, at most once if the request has a key."""
        services, actor = self.services, call.principal.name
        key = call.header(b"idempotency-key")
        if key is None:
            return _reply(rendered.done(await change(services.committer, ddl, actor)))
        path = key_path(
            services.scope, principal=actor, api="v1", operation=call.operation.value, key=key
        )
        answer = await change_once(
            services.committer,
            services.idempotency,
            ddl,
            actor,
            path=path,
            request_sha256=_fingerprint(ddl),
            renderer=rendered,
            arrived_ms=call.arrived_ms,
        )
        return _reply(answer)


def found_in(done: Done, kind: type[R]) -> Found[R]:
    """The object that a change was about."""
    row = done.object.row
    if not isinstance(row, kind):
        raise Corrupt(f"{done.operation} has ended with another kind of object")
    return Found(row, done.object.commit)


def one(document: Document, found: FoundObject, *, revalidates: bool = True) -> Reply:
    """The reply with one object."""
    return Reply(
        200,
        json.encode(document),
        headers={"ETag": object_tag(found)},
        revalidates=revalidates,
    )


def many(document: Document, snapshot: Snapshot) -> Reply:
    """The reply with what was read from one manifest."""
    return Reply(200, json.encode(document), headers={"ETag": snapshot_tag(snapshot)})


def url(*parts: str) -> str:
    """The URL of something below the API, escaped."""
    return "/".join((API, *(quote(part, safe="") for part in parts)))


def schema_url(catalog: str, path: tuple[str, ...]) -> str:
    """The URL of a schema."""
    return url("catalogs", catalog, "schemas", join_levels(path))


def _fingerprint(ddl: Ddl) -> str:
    """What tells one request from another: all that is asked for, whatever order it was written in."""
    return sha256_hex(msgspec.json.encode([type(ddl).__name__, ddl], order="sorted"))


def _reply(answer: Answer) -> Reply:
    content_type = JSON if answer.succeeded else CONTENT_TYPE
    body = b"" if answer.status == 204 else bytes(answer.body)
    return Reply(answer.status, body, content_type, headers=dict(answer.headers))
