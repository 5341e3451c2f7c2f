"""Writes the coordinator's events to the ledger, through the segment writers of this process.

The events are validated like those that the API receives. Their times never decrease, whatever the wall
clock does, so that the fold sees later steps of a run as later. An append of unknown outcome is repeated
with the same bytes until its outcome is known: the fold recognises repeated events.
"""

from collections.abc import Sequence
from functools import cache

import msgspec

from arco.core import json
from arco.core.backoff import ExponentialBackoff
from arco.core.clock import utc
from arco.core.errors import Unavailable, Unknown
from arco.core.ids import new_ulid, numbered_ulid
from arco.core.runtime import Runtime
from arco.events.registry import find_domain, find_kind
from arco.flow.coordinator.ports import RunEvent
from arco.ledger.envelope import Envelope, Source
from arco.ledger.writer import DomainWriters

SOURCE = "flow"

_VERSION = 1
_APPEND_BYTES = 3 * 1024 * 1024
_BACKOFF = ExponentialBackoff(50, 5_000, jitter=1)


class LedgerEventWriter:
    """An `EventWriter`. Events of one domain that fit into a segment are stored together or not at all."""

    def __init__(self, writers: DomainWriters) -> None:
        self._writers = writers
        self._runtime: Runtime = writers.store.runtime
        self._latest_ms = 0
        self._sequence = 0
        self._closed = False

    async def append(self, events: Sequence[RunEvent]) -> None:
        """Durable on return; costs one concurrent create for each domain."""
        by_domain: dict[str, list[bytes]] = {}
        for domain, line in self._encode(events):
            by_domain.setdefault(domain, []).append(line)
        work = [self._store(domain, lines) for domain, lines in by_domain.items()]
        if len(work) == 1:
            await work[0]
        else:
            await self._runtime.tasks.gather(*work)

    def close(self) -> None:
        """Stop repeating appends of unknown outcome: the process ends."""
        self._closed = True

    def _encode(self, events: Sequence[RunEvent]) -> list[tuple[str, bytes]]:
        self._latest_ms = max(self._latest_ms, self._runtime.clock.now_ms())
        moment, batch = utc(self._latest_ms), new_ulid(self._runtime)
        lines = []
        for number, event in enumerate(events):
            payload = json.encode(event.payload)
            find_kind(event.name, _VERSION).type.read(payload)
            self._sequence += 1
            envelope = Envelope(
                event_id=numbered_ulid(batch, number),
                event_type=event.name,
                event_version=_VERSION,
                occurred_at=moment,
                received_at=moment,
                idempotency_key=event.key,
                source=Source(SOURCE, event.execution_id, sequence=self._sequence),
                payload=msgspec.Raw(payload),
                caller=msgspec.UNSET if event.caller is None else event.caller,
            )
            lines.append((_domain(event.name), json.encode(envelope)))
        return lines

    async def _store(self, domain: str, lines: list[bytes]) -> None:
        batch: list[bytes] = []
        size = 0
        for line in lines:
            if batch and size + len(line) > _APPEND_BYTES:
                await self._append_until_acknowledged(domain, batch)
                batch, size = [], 0
            batch.append(line)
            size += len(line) + 1
        await self._append_until_acknowledged(domain, batch)

    async def _append_until_acknowledged(self, domain: str, lines: list[bytes]) -> None:
        """Append lines; once they may have been stored, only success is an answer (law 9)."""
        in_doubt, failures = False, 0
        while True:
            try:
                await self._writers.of(domain).append_lines(lines)
                return
            except Unknown:
                in_doubt = True
                if self._closed:
                    raise
            except Unavailable as error:
                if not in_doubt:
                    raise
                if self._closed:
                    raise Unknown("an earlier attempt to append may yet land") from error
            failures += 1
            await _BACKOFF.sleep(failures, self._runtime)


_domain = cache(find_domain)  # called with declared names only, so it stays small
