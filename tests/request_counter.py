"""A spy: counts what a store was asked."""

from collections import Counter


class Tally:
    """An Observer that counts."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, str]] = []

    def request(self, verb: str, key: str, outcome: str, ms: float) -> None:
        self.seen.append((verb, key, outcome))

    def by_verb(self, containing: str = "") -> dict[str, int]:
        return dict(Counter(verb for verb, key, _ in self.seen if containing in key))

    def clear(self) -> None:
        self.seen.clear()
