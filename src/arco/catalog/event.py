"""The event of Tier 1: the decision on a request, with complete rows, ids and times.

Replaying it decides nothing. It has an effect only if a commit record of a manifest names it: the events of
a refused or crashed attempt stay in the ledger, unread.
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
from arco.ledger.envelope import Envelope, Source

NAME = "catalog_changed"
VERSION = 1


class CatalogChanged(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The payload: the operation, its actor and object, and the rows that it writes, by table."""

    request_id: str
    operation: str
    actor: str
    kind: str
    object_id: str
    name: str
    rows: dict[str, tuple[msgspec.Raw, ...]]


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
    """The payload of an event and its rows, or `Invalid`: then the entire call is refused (P24)."""
    if (event.event_type, event.event_version) != (NAME, VERSION):
        raise Invalid(
            f"event {event.event_id} has the unknown type {event.event_type} version "
            f"{event.event_version}; upgrade the compactor"
        )
    try:
        payload = json.decode(bytes(event.payload), CatalogChanged)
        rows = _rows(payload)
    except Invalid as problem:
        raise Invalid(f"event {event.event_id} cannot be folded: {problem}") from problem
    return payload, rows


def _encoded(rows: Iterable[AnyRow]) -> dict[str, tuple[msgspec.Raw, ...]]:
    encoded: dict[str, tuple[msgspec.Raw, ...]] = {}
    for row in rows:
        name = TABLE_OF[type(row)].name
        encoded[name] = (*encoded.get(name, ()), msgspec.Raw(json.encode(row)))
    return encoded


def _rows(payload: CatalogChanged) -> dict[str, list[AnyRow]]:
    if not payload.rows:
        raise Invalid("it has no rows")
    return {table: _decoded(table, raw) for table, raw in payload.rows.items()}


def _decoded(table: str, rows: tuple[msgspec.Raw, ...]) -> list[AnyRow]:
    kind = ROWS.get(table)
    if kind is None or not rows:
        raise Invalid(f"there is no table {table!r}, or no row for it")
    return [json.decode(bytes(row), kind) for row in rows]
