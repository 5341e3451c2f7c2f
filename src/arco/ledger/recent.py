"""Events that this process has stored lately, to tell a sender that one came twice.

It only spares the ledger some lines: whatever is not found here is appended again, and the fold absorbs it.
So an event counts as sent before only if its type, its key and its payload are those of one that is
durable; what else came under the same key is for the fold to judge, as it would be without this.
"""

from collections.abc import Iterable

from arco.ledger.envelope import Envelope

DEFAULT_MOST = 100_000

_Key = tuple[str, str]


class Recent:
    """The keys of the last `most` events or so, in two generations: the older goes as a whole."""

    def __init__(self, most: int = DEFAULT_MOST) -> None:
        self._half = most // 2
        self._young: dict[_Key, int] = {}
        self._old: dict[_Key, int] = {}

    def add(self, events: Iterable[Envelope]) -> None:
        """These are durable."""
        for event in events:
            self._young[_key(event)] = _content(event)
            if len(self._young) > self._half:
                self._young, self._old = {}, self._young

    def has(self, event: Envelope) -> bool:
        """Whether the same event was stored lately."""
        key = _key(event)
        known = self._young.get(key)
        if known is None:
            known = self._old.get(key)
        return known is not None and known == _content(event)

    def __len__(self) -> int:
        return len(self._young) + len(self._old)


def _key(event: Envelope) -> _Key:
    return event.event_type, event.idempotency_key


def _content(event: Envelope) -> int:
    return hash(bytes(event.payload))
