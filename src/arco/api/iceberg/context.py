"""What the handlers of the Iceberg REST catalog share: callers, names, and replies with metadata."""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary

import msgspec

from arco.api.http.reply import Reply
from arco.api.http.request import Call
from arco.api.services import Services
from arco.catalog.name import LEVEL, MAX_LEVELS
from arco.catalog.pending_request import Caller
from arco.core import json
from arco.core.errors import Invalid
from arco.core.shared_task import SharedTasks
from arco.iceberg.loaded_metadata import LoadedMetadata, SnapshotsMode
from arco.iceberg.service import Iceberg

_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_SMALL_BYTES = 1024  # not worth compressing
_LARGE_BYTES = 256 * 1024  # encoded in a thread
_CACHED_CODINGS = 256

VARY = "Accept-Encoding"

_Key = tuple[int, SnapshotsMode, bool]  # which metadata, in which form, compressed or not


class IcebergHandlerContext:
    """Services and replies for the handlers."""

    def __init__(self, services: Services, iceberg: Iceberg) -> None:
        self.services = services
        self.iceberg = iceberg
        self._tasks = services.runtime.tasks
        self._encoding = SharedTasks[_Key, tuple[bytes, bool]](self._tasks)
        # Cached as long as the metadata: by form, whether compression is accepted, and whether tagged.
        self._replies: WeakKeyDictionary[
            LoadedMetadata, dict[tuple[SnapshotsMode, bool, bool], Reply]
        ] = WeakKeyDictionary()

    async def catalog(self, call: Call[Any, Any]) -> str:
        """The name of the catalog in the path, which has its id or its name."""
        return await self.iceberg.catalog(call.path_params["prefix"])

    async def loaded(
        self,
        call: Call[Any, Any],
        loaded: LoadedMetadata,
        form: SnapshotsMode = SnapshotsMode.ALL,
        *,
        tagged: bool = True,
    ) -> Reply:
        """The reply with the metadata of a table or a view, compressed if the client accepts that."""
        gzip = takes_gzip(call.headers.get(b"accept-encoding"))
        replies = self._replies.setdefault(loaded, {})
        reply = replies.get((form, gzip, tagged))
        if reply is None:
            body, is_gzip = await self._body(loaded, form, gzip=gzip)
            headers = {"Vary": VARY}
            if tagged and loaded.location is not None:  # a staged create has no version
                headers["ETag"] = loaded.etag(form)
            if is_gzip:
                headers["Content-Encoding"] = "gzip"
            reply = Reply(200, body, headers=headers, revalidates=False)
            replies[form, gzip, tagged] = reply
        return reply

    async def _body(
        self, loaded: LoadedMetadata, form: SnapshotsMode, *, gzip: bool
    ) -> tuple[bytes, bool]:
        """The body, and whether it is compressed."""
        body = loaded.ready(form, packed=gzip)
        if body is not None:
            return body, gzip
        if loaded.kept_bytes <= _LARGE_BYTES:
            return _encode_body(loaded, form, gzip=gzip)
        return await self._encode_shared(loaded, form, gzip=gzip)

    async def _encode_shared(
        self, loaded: LoadedMetadata, form: SnapshotsMode, *, gzip: bool
    ) -> tuple[bytes, bool]:
        """Encode large metadata in a thread, once for concurrent requests."""
        key = (id(loaded), form, gzip)

        async def encode() -> tuple[bytes, bool]:
            return await self._tasks.in_thread(lambda: _encode_body(loaded, form, gzip=gzip))

        return await self._encoding.run(key, encode)


def _encode_body(loaded: LoadedMetadata, form: SnapshotsMode, *, gzip: bool) -> tuple[bytes, bool]:
    body = loaded.body(form)
    if gzip and len(body) > _SMALL_BYTES:
        return loaded.gzipped(form), True
    return body, False


def json_reply(document: object) -> Reply:
    """The reply with any other document."""
    return Reply(200, json.encode(document))


def caller_of(call: Call[Any, Any]) -> Caller:
    """Who requests a change: the principal, the engine and the idempotency key."""
    return Caller(
        actor=call.principal.name,
        engine=call.engine,
        key=key_of(call.header(b"idempotency-key")),
        operation=call.operation.value,
        arrived_ms=call.arrived_ms,
        update_source="iceberg_rest",
    )


def key_of(header: str | None) -> str | None:
    """The idempotency key: a UUID of any version, in lower case."""
    if header is None:
        return None
    if _UUID.fullmatch(header) is None:
        raise Invalid("Idempotency-Key is not a UUID")
    return header.lower()


def namespace_of(call: Call[Any, Any]) -> tuple[str, ...]:
    """The levels of the namespace in the path."""
    return levels(call.path_params["namespace"])


def levels(text: str) -> tuple[str, ...]:
    """The levels of a namespace in a URL; they may be names that cannot exist."""
    parts = tuple(text.split(LEVEL, MAX_LEVELS))
    if len(parts) > MAX_LEVELS:
        raise Invalid(f"a namespace has at most {MAX_LEVELS} levels")
    return parts


@lru_cache(_CACHED_CODINGS)
def takes_gzip(accept_encoding: bytes | None) -> bool:
    """Whether Accept-Encoding has gzip, with a weight above 0."""
    for part in (accept_encoding or b"").lower().split(b","):
        coding, _, weight = part.partition(b";")
        if coding.strip() in {b"gzip", b"x-gzip"}:
            return weight.replace(b" ", b"") not in {b"q=0", b"q=0.0", b"q=0.00", b"q=0.000"}
    return False


class IdentifierModel(msgspec.Struct, frozen=True):
    """The name of a table, view or function."""

    namespace: tuple[str, ...]
    name: str


class IdentifierPage(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """A page of names."""

    identifiers: Sequence[IdentifierModel]
    next_page_token: str | None


def identifiers_reply(namespace: tuple[str, ...], names: Sequence[str], token: str | None) -> Reply:
    """The reply with one page of names."""
    items = [IdentifierModel(namespace, name) for name in names]
    return json_reply(IdentifierPage(identifiers=items, next_page_token=token))
