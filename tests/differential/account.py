"""Accounts: an event as the oracle reads it, and all that is told of one thing.

Nothing of the code under test is used here.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

Values = dict[str, Any]
Order = tuple[Any, ...]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_FIRST = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
_LAST = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND


def moment(text: str) -> datetime:
    """In UTC; what lies outside of the years 1 to 9999 is moved to their end."""
    microseconds = (datetime.fromisoformat(text) - _EPOCH) // _MICROSECOND
    return _EPOCH + max(_FIRST, min(_LAST, microseconds)) * _MICROSECOND


class Said:
    """One event, with its times."""

    def __init__(self, said: dict[str, Any]) -> None:
        self.name: str = said["event_type"]
        self.key: str = said["idempotency_key"]
        self.payload: dict[str, Any] = said["payload"]
        self.occurred = moment(said["occurred_at"])
        self.source: dict[str, Any] = said["source"]
        at = min(self.occurred, moment(said["received_at"]))
        self._last = (at, self.source.get("sequence") or 0, said["event_id"])

    def get(self, name: str) -> Any:
        return self.payload.get(name)

    def time(self, name: str) -> datetime:
        """A time of the payload, or if it names none, when the event occurred."""
        found = self.get(name)
        return self.occurred if found is None else moment(found)

    def order(self, sticky: int = 0, causal: int = 0, rank: int = 0) -> Order:
        """First what is sticky, then what is causal, then the rank, and only then clocks."""
        return (sticky, causal, rank, *self._last)


class Row:
    """All that is told of one thing."""

    def __init__(self) -> None:
        self._groups: dict[str, tuple[Order, list[Values]]] = {}
        self._facts: Values = {}

    def group(self, name: str, order: Order, **values: Any) -> None:
        """Columns that belong together: the event that stands highest tells all of them.

        Two that differ in nothing but their payload may both be right.
        """
        before = self._groups.get(name)
        if before is None or order > before[0]:
            self._groups[name] = (order, [values])
        elif order == before[0]:
            before[1].append(values)

    def largest(self, **facts: Any) -> None:
        for name, value in facts.items():
            if value is not None:
                self._facts[name] = max(value, self._facts.get(name, value))

    def smallest(self, **facts: Any) -> None:
        for name, value in facts.items():
            if value is not None:
                self._facts[name] = min(value, self._facts.get(name, value))

    def problems(self, found: Values) -> list[str]:
        """What is wrong about the row that was found."""
        wrong = [
            f"{name} is {found[name]!r}, not {value!r}"
            for name, value in self._facts.items()
            if found[name] != value
        ]
        told = {*self._facts}
        for _, tied in self._groups.values():
            told |= {*tied[0]}
            if not any(each.items() <= found.items() for each in tied):
                seen = {name: found[name] for name in tied[0]}
                wrong.append(f"{seen} should be {' or '.join(map(str, tied))}")
        untold = {*found} - told
        return wrong + [
            f"{name} is {found[name]!r}, which nobody told"
            for name in sorted(untold)
            if found[name] is not None
        ]
