"""What the handlers of the native API share: how a change is applied, and how replies are written."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec

from arco.api.http.problem import CONTENT_TYPE, encode_problem, headers_of, problem_of
from arco.api.http.reply import JSON, Reply, object_tag, snapshot_tag
from arco.api.http.request import Call
from arco.api.http.snapshots import SnapshotReads
from arco.api.responses import ResponseModel
from arco.api.services import Services
from arco.catalog.ddl import CatalogRequest
from arco.catalog.format_router import FormatRouter
from arco.catalog.lookup import CommittedObject
from arco.catalog.model import CatalogRow, CommittedRow, SchemaRow, TableRow
from arco.catalog.name import join_levels
from arco.catalog.pending_request import Caller, ChangeResult
from arco.catalog.snapshot import Snapshot
from arco.core import json
from arco.core.errors import ArcoError, Corrupt, NotFound
from arco.core.hashing import sha256_hex
from arco.ledger.claim import Answer, key_path
from arco.ledger.idempotency import IdempotentWork

R = TypeVar("R", CatalogRow, SchemaRow, TableRow)

API = "/api/v1"


@dataclass(frozen=True)
class ChangeReply:
    """How a change is answered."""

    status: int
    document: Callable[[ChangeResult], ResponseModel] | None = None  # None for an empty body
    location: Callable[[ChangeResult], str] | None = None  # the URL of what was created

    def done(self, result: ChangeResult) -> Answer:
        """The answer to a change that was made."""
        headers = {"ETag": object_tag(result.object)}
        if self.location is not None:
            headers["Location"] = self.location(result)
        body = b"null" if self.document is None else json.encode(self.document(result))
        return Answer(status=self.status, body=msgspec.Raw(body), headers=headers)

    def refused(self, problem: ArcoError) -> Answer:
        """The answer to a change that was refused for good."""
        document = problem_of(problem)
        return Answer(
            status=document.status,
            body=msgspec.Raw(encode_problem(document)),
            headers=headers_of(problem),
        )


class HandlerContext:
    """Services, snapshots and changes for the handlers of the native API."""

    def __init__(self, services: Services, reads: SnapshotReads) -> None:
        self.services = services
        self.reads = reads

    @property
    def format_router(self) -> FormatRouter:
        """Requests to change the catalog and its tables."""
        return self.services.format_router

    async def apply(
        self, call: Call[Any, Any], request: CatalogRequest, reply: ChangeReply
    ) -> Reply:
        """Change the catalog or a table, at most once if the request has an idempotency key."""
        caller = _caller(call)
        if caller.key is None:
            return answer_reply(reply.done(await self.format_router.apply(request, caller)))
        work = self.format_router.work(request, caller, reply)
        return await apply_once(self.services, call, caller.key, _fingerprint(request), work)

    async def check_exists(self, call: Call[Any, Any], row: TableRow) -> None:
        """`NotFound` for a table of the snapshot that is gone (P31)."""
        if await self.is_gone(call, row):
            raise NotFound(f"there is no table {row.name!r} in this schema")

    async def is_gone(self, call: Call[Any, Any], row: TableRow) -> bool:
        """Whether the newest snapshot has a table that is gone; earlier snapshots stay as they were."""
        if row.dropped_at is not None or row.table_id not in call.unresolved_ids:
            return False
        as_of = call.query.as_of
        if as_of is not None and (call.head is None or as_of != str(call.head.number)):
            return False
        call.resolved_names = True
        return await self.format_router.is_dropped(row)


async def apply_once(
    services: Services, call: Call[Any, Any], key: str, fingerprint: str, work: IdempotentWork
) -> Reply:
    """Do `work` at most once under an idempotency key, and reply with its outcome."""
    path = key_path(
        services.scope,
        principal=call.principal.name,
        api="v1",
        operation=call.operation.value,
        key=key,
    )
    answer = await services.idempotency.once(path, fingerprint, work, arrived_ms=call.arrived_ms)
    return answer_reply(answer)


def answer_reply(answer: Answer) -> Reply:
    """The reply with the outcome of a change."""
    content_type = JSON if answer.succeeded else CONTENT_TYPE
    body = b"" if answer.status == 204 else bytes(answer.body)
    return Reply(answer.status, body, content_type, headers=dict(answer.headers))


def changed_row(result: ChangeResult, row_type: type[R]) -> CommittedRow[R]:
    """The object that was changed."""
    row = result.object.row
    if not isinstance(row, row_type):
        raise Corrupt(f"{result.operation} has ended with another kind of object")
    return CommittedRow(row, result.object.commit)


def object_reply(
    document: ResponseModel, item: CommittedObject, *, revalidates: bool = True
) -> Reply:
    """The reply with one object."""
    return Reply(
        200, json.encode(document), headers={"ETag": object_tag(item)}, revalidates=revalidates
    )


def list_reply(document: ResponseModel, snapshot: Snapshot, *, tagged: bool = True) -> Reply:
    """The reply with a list that was read from one manifest; untagged if it depends on more than that."""
    headers = {"ETag": snapshot_tag(snapshot)} if tagged else {}
    return Reply(200, json.encode(document), headers=headers)


def api_url(*parts: str) -> str:
    """A URL of the API; the parts are escaped."""
    return "/".join((API, *(quote(part, safe="") for part in parts)))


def schema_url(catalog: str, path: tuple[str, ...]) -> str:
    """The URL of a schema."""
    return api_url("catalogs", catalog, "schemas", join_levels(path))


def _caller(call: Call[Any, Any]) -> Caller:
    return Caller(
        actor=call.principal.name,
        engine=call.engine,
        key=call.header(b"idempotency-key"),
        operation=call.operation.value,
        arrived_ms=call.arrived_ms,
        update_source="native",
    )


def _fingerprint(request: CatalogRequest) -> str:
    """A hash of the whole request, independent of the order of its fields."""
    return sha256_hex(msgspec.json.encode([type(request).__name__, request], order="sorted"))
