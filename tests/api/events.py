"""Events as clients send them, and what the ledger has of them."""

import asyncio
import json
from typing import Any
from uuid import uuid4

import httpx2

from arco.ledger.envelope import Envelope
from tests.api.server import Served
from tests.ledger.events import all_events

URL = "/api/v1/events"
NDJSON = {"Content-Type": "application/x-ndjson"}


def started(execution_id: str | None = None, **fields: Any) -> dict[str, Any]:
    """An event that is right."""
    return {
        "event_type": "execution_started",
        "event_version": 1,
        "occurred_at": "2026-05-01T10:00:00Z",
        "source": {"type": "test"},
        "payload": {"execution_id": execution_id or uuid4().hex, "pipeline_id": "orders"},
        **fields,
    }


def observed(**fields: Any) -> dict[str, Any]:
    """A right one of another domain."""
    from arco.events.registry import KINDS

    example = next(kind.example for kind in KINDS if kind.name == "lineage_observed")
    return started(event_type="lineage_observed", payload=example, **fields)


def lines(*events: object) -> bytes:
    return b"\n".join(json.dumps(event).encode() for event in events)


def post(http: httpx2.Client, *events: object, key: str | None = None) -> httpx2.Response:
    headers = {} if key is None else {"Idempotency-Key": key}
    return http.post(URL, json=list(events), headers=headers)


def ledger(api: Served, domain: str = "executions") -> list[Envelope]:
    """All events of a domain, of all writers."""
    return asyncio.run(all_events(api.services.reader.store, domain))


def ids_of(api: Served, *executions: str) -> list[str]:
    """The ids of the events about these executions, as the ledger has them."""
    return [
        event.event_id
        for event in ledger(api)
        if json.loads(bytes(event.payload)).get("execution_id") in executions
    ]
