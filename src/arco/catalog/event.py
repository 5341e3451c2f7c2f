"""The one event of Tier 1: a request was decided, and these are its rows, ids and times included.

It carries whole rows, so that replaying it decides nothing again. It counts only if a commit that a
manifest names names it: what a refused or crashed attempt has appended stays in the ledger, unread.
"""

from collections.abc import Iterable

import msgspec

from arco.catalog.decision import Decision
from arco.catalog.model import ROWS, TABLE_OF, AnyRow
from arco.core import json
from arco.core.clock import utc
from arco.core.errors import Invalid
from arco.core.ids import new_ulid
from arco.core.runtime import Runtime
from arco.ledger.envelope import Envelope, EventType, Source

NAME = "catalog_changed"
VERSION = 1


class CatalogChanged(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The payload: who did what to which object, and the rows that carry it out, by table."""

    request_id: str
    operation: str
    actor: str
    kind: str
    object_id: str
    name: str
    rows: dict[str, tuple[msgspec.Raw, ...]]


CATALOG_CHANGED = EventType(NAME, VERSION, CatalogChanged)


def make_event(runtime: Runtime, decision: Decision, *, request_id: str, actor: str) -> Envelope:
    """A decision as an event."""
    payload = CatalogChanged(
        request_id=request_id,
        operation=decision.operation,
        actor=actor,
        kind=decision.kind,
        object_id=decision.object_id,
        name=decision.name,
        rows=_encoded(decision.rows),
    )
    now = utc(runtime.clock.now_ms())
    return Envelope(
        event_id=new_ulid(runtime),
        event_type=NAME,
        event_version=VERSION,
        occurred_at=decision.at or decision.object.updated_at,
        received_at=now,
        idempotency_key=request_id,
        source=Source(type="catalog"),
        payload=msgspec.Raw(json.encode(payload)),
        caller=actor,
    )


def read_event(event: Envelope) -> tuple[CatalogChanged, dict[str, list[AnyRow]]]:
    """What an event says and its rows, or `Invalid`: then nothing of its call may count (P24)."""
    if (event.event_type, event.event_version) != (NAME, VERSION):
        raise Invalid(
            f"event {event.event_id}: {event.event_type} version {event.event_version} is unknown"
        )
    try:
        said = json.decode(bytes(event.payload), CatalogChanged)
        rows = _rows(said)
    except Invalid as problem:
        raise Invalid(f"event {event.event_id} cannot be folded: {problem}") from problem
    return said, rows


def _encoded(rows: Iterable[AnyRow]) -> dict[str, tuple[msgspec.Raw, ...]]:
    encoded: dict[str, tuple[msgspec.Raw, ...]] = {}
    for row in rows:
        name = TABLE_OF[type(row)].name
        encoded[name] = (*encoded.get(name, ()), msgspec.Raw(json.encode(row)))
    return encoded


def _rows(said: CatalogChanged) -> dict[str, list[AnyRow]]:
    if not said.rows:
        raise Invalid("it has no rows")
    return {table: _decoded(table, raw) for table, raw in said.rows.items()}


def _decoded(table: str, rows: tuple[msgspec.Raw, ...]) -> list[AnyRow]:
    kind = ROWS.get(table)
    if kind is None or not rows:
        raise Invalid(f"there is no table {table!r}, or no row for it")
    return [json.decode(bytes(row), kind) for row in rows]
