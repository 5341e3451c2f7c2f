"""The writers of a process: one for each domain, shared by all who append there.

Each writer has a stream of its own and costs the compactor a probe, so there are no more than needed.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from arco.core.errors import Invalid
from arco.ledger.segment import Segment
from arco.ledger.writer import Writer
from arco.storage.store import Store


class Ring(Protocol):
    """Whoever wants to hear of new segments of any domain at once."""

    def __call__(self, domain: str, stream: str, segment: Segment | None = None, /) -> None:
        """A stream of a domain has a new segment, which is durable: this one, if it is given."""


def nobody(_domain: str, _stream: str, _segment: Segment | None = None, /) -> None:
    """Whoever follows finds out by itself."""


@dataclass(frozen=True)
class _DomainBell:
    """The bell of one writer: tells also of which domain it is."""

    domain: str
    on_ring: Ring

    def ring(self, stream: str, segment: Segment | None = None, /) -> None:
        self.on_ring(self.domain, stream, segment)


class Writers:
    """A writer for each of `domains`; `ring` hears of every domain and stream that has news."""

    def __init__(self, store: Store, domains: Iterable[str], *, ring: Ring = nobody) -> None:
        self.store = store
        self._writers = {
            domain: Writer(store, domain, bell=_DomainBell(domain, ring)) for domain in domains
        }

    def of(self, domain: str) -> Writer:
        """The writer of one domain."""
        try:
            return self._writers[domain]
        except KeyError:
            raise Invalid(f"nobody writes events of domain {domain!r} here") from None

    async def close(self) -> None:
        """Finish what was taken, and seal the streams."""
        await self.store.runtime.tasks.gather(*(each.close() for each in self._writers.values()))
