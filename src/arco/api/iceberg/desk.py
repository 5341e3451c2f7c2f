"""The desk behind every handler: whom a request comes from, what it names, and how metadata are sent."""

import re
from typing import Any

from arco.api.route import Call, Reply
from arco.api.services import Services
from arco.catalog.name import LEVEL, MOST_LEVELS
from arco.core import json
from arco.core.errors import Invalid
from arco.core.tasks import Task
from arco.iceberg.desk import Caller
from arco.iceberg.loaded import Form, Loaded
from arco.iceberg.service import Iceberg

_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_LONGEST_ENGINE = 200

_SMALL_BYTES = 1024  # are not worth compressing
_LARGE_BYTES = 256 * 1024  # are worked on beside other requests

VARY = "Accept-Encoding"

_Key = tuple[int, Form, bool]  # which metadata, in which form, compressed or not


class IcebergDesk:
    """What handlers share."""

    def __init__(self, services: Services, iceberg: Iceberg) -> None:
        self.services = services
        self.iceberg = iceberg
        self._tasks = services.runtime.tasks
        self._making: dict[_Key, Task[tuple[bytes, bool]]] = {}

    async def catalog(self, call: Call[Any, Any]) -> str:
        """The name of the catalog that the path begins with, by its id or its name."""
        return await self.iceberg.catalog(call.names["prefix"])

    async def loaded(
        self, call: Call[Any, Any], loaded: Loaded, form: Form = Form.ALL, *, tagged: bool = True
    ) -> Reply:
        """The reply with a table's or view's metadata, compressed for those who read that."""
        headers = {"Vary": VARY}
        if tagged and loaded.location is not None:  # what was only staged has no version
            headers["ETag"] = loaded.etag(form)
        body, is_packed = await self._body(call, loaded, form)
        if is_packed:
            headers["Content-Encoding"] = "gzip"
        return Reply(200, body, headers=headers, revalidates=False)

    async def _body(self, call: Call[Any, Any], loaded: Loaded, form: Form) -> tuple[bytes, bool]:
        """What is sent, and whether it is compressed."""
        packs = takes_gzip(call.headers.get(b"accept-encoding"))
        body = loaded.ready(form, packed=packs)
        if body is not None:
            return body, packs
        if loaded.kept_bytes <= _LARGE_BYTES:
            return _made(loaded, form, packs=packs)
        return await self._made_beside(loaded, form, packs=packs)

    async def _made_beside(self, loaded: Loaded, form: Form, *, packs: bool) -> tuple[bytes, bool]:
        """What takes a while is made once, however many wait for it, and beside other requests."""
        key = (id(loaded), form, packs)
        making = self._making.get(key)
        if making is None:
            making = self._making[key] = self._tasks.spawn(self._make(key, loaded))
        return await making.wait()

    async def _make(self, key: _Key, loaded: Loaded) -> tuple[bytes, bool]:
        try:
            return await self._tasks.in_thread(lambda: _made(loaded, key[1], packs=key[2]))
        finally:
            del self._making[key]


def _made(loaded: Loaded, form: Form, *, packs: bool) -> tuple[bytes, bool]:
    body = loaded.body(form)
    if packs and len(body) > _SMALL_BYTES:
        return loaded.gzipped(form), True
    return body, False


def answer(document: object) -> Reply:
    """The reply with anything else."""
    return Reply(200, json.encode(document))


def caller_of(call: Call[Any, Any]) -> Caller:
    """Who asks for a change, with which program, under which key."""
    return Caller(
        actor=call.principal.name,
        engine=engine_of(call.headers.get(b"user-agent")),
        key=key_of(call.header(b"idempotency-key")),
        operation=call.operation.value,
        arrived_ms=call.arrived_ms,
    )


def key_of(header: str | None) -> str | None:
    """The idempotency key: a UUID of any version, in one spelling."""
    if header is None:
        return None
    if _UUID.fullmatch(header) is None:
        raise Invalid("Idempotency-Key is not a UUID")
    return header.lower()


def engine_of(user_agent: bytes | None) -> str | None:
    """What the client calls itself, bounded and printable."""
    told = (user_agent or b"")[:_LONGEST_ENGINE].decode("latin-1")
    return "".join(filter(str.isprintable, told)).strip() or None


def namespace_of(call: Call[Any, Any]) -> tuple[str, ...]:
    """The levels of the namespace that the path names."""
    return levels(call.names["namespace"])


def levels(text: str) -> tuple[str, ...]:
    """A namespace as a URL has it; whether such a one can exist is not decided here."""
    parts = tuple(text.split(LEVEL, MOST_LEVELS))
    if len(parts) > MOST_LEVELS:
        raise Invalid(f"a namespace has at most {MOST_LEVELS} levels")
    return parts


def takes_gzip(accept_encoding: bytes | None) -> bool:
    """Whether gzip stands in the header, with a weight that is not nothing."""
    for part in (accept_encoding or b"").lower().split(b","):
        coding, _, weight = part.partition(b";")
        if coding.strip() in {b"gzip", b"x-gzip"}:
            return weight.replace(b" ", b"") not in {b"q=0", b"q=0.0", b"q=0.00", b"q=0.000"}
    return False
