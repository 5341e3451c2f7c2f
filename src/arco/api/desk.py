"""The desk behind every handler: how a change is carried out, and how an answer is written."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec

from arco.api.etag import object_tag, snapshot_tag
from arco.api.iceberg.desk import engine_of
from arco.api.problem import CONTENT_TYPE, encode_problem, headers_of, problem_of
from arco.api.reads import Reads
from arco.api.route import JSON, Call, Reply
from arco.api.services import Services
from arco.api.wire import Document
from arco.catalog.change import OBJECT, change, change_work
from arco.catalog.done import Done
from arco.catalog.lookup import FoundObject
from arco.catalog.model import CatalogRow, Found, SchemaRow, TableRow
from arco.catalog.name import join_levels
from arco.catalog.snapshot import Snapshot
from arco.core import json
from arco.core.errors import ArcoError, Corrupt, NotFound, Unsupported
from arco.core.hashing import sha256_hex
from arco.core.ids import new_object_id
from arco.iceberg.desk import Caller
from arco.iceberg.native import NativeTables, plain_request
from arco.iceberg.ruling import NativeRequest
from arco.ledger.claim import Answer, key_path
from arco.ledger.idempotency import Work

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

    @property
    def native(self) -> NativeTables | None:
        """Who changes Iceberg tables and views, where these are served."""
        return None if self.services.iceberg is None else self.services.iceberg.native

    def ruler(self) -> NativeTables:
        """Who changes Iceberg tables and views, or `Unsupported`."""
        if self.native is None:
            raise Unsupported("there are no views where Iceberg is not served")
        return self.native

    async def carry_out(
        self, call: Call[Any, Any], request: NativeRequest, rendered: Rendered
    ) -> Reply:
        """Change the catalog, at most once if the request has a key.

        What Iceberg rules goes to its room, all else to the catalog itself. Both answer alike, under the
        same keys.
        """
        services, caller, native = self.services, _caller(call), self.native
        if caller.key is None:
            done = None if native is None else await native.carry_out(request, caller)
            if done is None:
                done = await change(services.committer, plain_request(request), caller.actor)
            return _reply(rendered.done(done))
        path = key_path(
            services.scope,
            principal=caller.actor,
            api="v1",
            operation=caller.operation,
            key=caller.key,
        )
        answer = await services.idempotency.once(
            path,
            _fingerprint(request),
            self._work(request, caller, rendered),
            arrived_ms=call.arrived_ms,
        )
        return _reply(answer)

    def _work(self, request: NativeRequest, caller: Caller, rendered: Rendered) -> Work:
        services, native = self.services, self.native
        ids: dict[str, str] = {OBJECT: new_object_id(services.runtime)}
        plain = change_work(
            services.committer, lambda _: plain_request(request), caller.actor, rendered, ids
        )
        return plain if native is None else native.work(request, caller, plain, rendered)

    async def refuse_dead(self, call: Call[Any, Any], row: TableRow) -> None:
        """`NotFound` for a table whose name is dead (P31)."""
        if await self.is_dead(call, row):
            raise NotFound(f"there is no table {row.name!r} in this schema")

    async def is_dead(self, call: Call[Any, Any], row: TableRow) -> bool:
        """Whether a table is not there although the newest snapshot has it; the past stays as it was."""
        if row.dropped_at is not None or row.table_id not in call.doubtful:
            return False
        as_of = call.query.as_of
        if as_of is not None and (call.head is None or as_of != str(call.head.number)):
            return False
        call.asked = True
        return await self.ruler().is_dead(row.table_id)


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


def many(document: Document, snapshot: Snapshot, *, tagged: bool = True) -> Reply:
    """The reply with what was read from one manifest; if it follows from more, it has no tag."""
    headers = {"ETag": snapshot_tag(snapshot)} if tagged else {}
    return Reply(200, json.encode(document), headers=headers)


def url(*parts: str) -> str:
    """The URL of something below the API, escaped."""
    return "/".join((API, *(quote(part, safe="") for part in parts)))


def schema_url(catalog: str, path: tuple[str, ...]) -> str:
    """The URL of a schema."""
    return url("catalogs", catalog, "schemas", join_levels(path))


def _caller(call: Call[Any, Any]) -> Caller:
    return Caller(
        actor=call.principal.name,
        engine=engine_of(call.headers.get(b"user-agent")),
        key=call.header(b"idempotency-key"),
        operation=call.operation.value,
        arrived_ms=call.arrived_ms,
        update_source="native",
    )


def _fingerprint(request: NativeRequest) -> str:
    """What tells one request from another: all that is asked for, whatever order it was written in."""
    return sha256_hex(msgspec.json.encode([type(request).__name__, request], order="sorted"))


def _reply(answer: Answer) -> Reply:
    content_type = JSON if answer.succeeded else CONTENT_TYPE
    body = b"" if answer.status == 204 else bytes(answer.body)
    return Reply(answer.status, body, content_type, headers=dict(answer.headers))
