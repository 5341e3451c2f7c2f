"""Facts over the ledger: events of our own, which go to the writers of this process without the door.

They are made by us, so they are checked against their kinds as the door would, and their times never go
back, whatever the wall clock does: what a run did later is later for the fold too. An append of unknown
outcome is repeated with the very same lines until it is known: the fold takes them for the same events.
"""

from collections.abc import Sequence
from functools import cache

import msgspec

from arco.core import json
from arco.core.clock import utc
from arco.core.errors import Unavailable, Unknown
from arco.core.ids import new_ulid, numbered_ulid
from arco.core.runtime import Runtime
from arco.events.registry import find_domain, find_kind
from arco.flow.run.ports import Fact
from arco.ledger.envelope import Envelope, Source
from arco.ledger.writers import Writers

SOURCE = "flow"

_VERSION = 1
_APPEND_BYTES = 3 * 1024 * 1024
_FIRST_PAUSE_MS = 50
_LONGEST_PAUSE_MS = 5_000


class LedgerFacts:
    """Appends facts. Those of one domain that fit into a segment go into one, together or not at all."""

    def __init__(self, writers: Writers) -> None:
        self._writers = writers
        self._runtime: Runtime = writers.store.runtime
        self._latest_ms = 0
        self._sequence = 0
        self._closed = False

    async def append(self, facts: Sequence[Fact]) -> None:
        """Durable on return; costs one create for each domain, beside each other."""
        by_domain: dict[str, list[bytes]] = {}
        for domain, line in self._lines(facts):
            by_domain.setdefault(domain, []).append(line)
        work = [self._store(domain, lines) for domain, lines in by_domain.items()]
        if len(work) == 1:
            await work[0]
        else:
            await self._runtime.tasks.gather(*work)

    def close(self) -> None:
        """Give up on what is in doubt: the process ends."""
        self._closed = True

    def _lines(self, facts: Sequence[Fact]) -> list[tuple[str, bytes]]:
        self._latest_ms = max(self._latest_ms, self._runtime.clock.now_ms())
        moment, batch = utc(self._latest_ms), new_ulid(self._runtime)
        lines = []
        for number, fact in enumerate(facts):
            payload = json.encode(fact.payload)
            find_kind(fact.name, _VERSION).type.read(payload)
            self._sequence += 1
            event = Envelope(
                event_id=numbered_ulid(batch, number),
                event_type=fact.name,
                event_version=_VERSION,
                occurred_at=moment,
                received_at=moment,
                idempotency_key=fact.key,
                source=Source(SOURCE, fact.execution_id, sequence=self._sequence),
                payload=msgspec.Raw(payload),
            )
            lines.append((_domain(fact.name), json.encode(event)))
        return lines

    async def _store(self, domain: str, lines: list[bytes]) -> None:
        part: list[bytes] = []
        size = 0
        for line in lines:
            if part and size + len(line) > _APPEND_BYTES:
                await self._until_known(domain, part)
                part, size = [], 0
            part.append(line)
            size += len(line) + 1
        await self._until_known(domain, part)

    async def _until_known(self, domain: str, lines: list[bytes]) -> None:
        """Store lines; once they may have been stored, only that they are is an answer (law 9)."""
        doubtful, pause = False, _FIRST_PAUSE_MS
        while True:
            try:
                await self._writers.of(domain).append_lines(lines)
                return
            except Unknown:
                doubtful = True
                if self._closed:
                    raise
            except Unavailable as refused:
                if not doubtful:
                    raise
                if self._closed:
                    raise Unknown("an earlier attempt to append may yet land") from refused
            await self._runtime.clock.sleep(pause * (1 + self._runtime.rng.random()))
            pause = min(2 * pause, _LONGEST_PAUSE_MS)


_domain = cache(find_domain)  # of declared names alone, so it stays small
