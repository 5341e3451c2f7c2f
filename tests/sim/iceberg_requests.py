"""Random requests of every kind, on so few tables that they meet each other all the time."""

import random
from collections.abc import Callable
from uuid import UUID

from .iceberg_notes import IcebergNotes
from .iceberg_operations import (
    Append,
    Both,
    Change,
    Create,
    Drop,
    List,
    Load,
    Mark,
    Operation,
    Register,
    Rename,
    Undrop,
)

NAMES = ("t1", "t1", "t1", "t2", "t2", "t3")


class RandomOperations:
    """The requests of one user."""

    def __init__(self, rng: random.Random, notes: IcebergNotes, first: str | None) -> None:
        self._rng = rng
        self._notes = notes
        self._first = first  # a table to begin with
        self._kinds: list[tuple[Callable[[str], Operation], int]] = [
            (self._create, 7),
            (self._mark, 10),
            (self._paint, 3),
            (self._append, 10),
            (self._both, 10),
            (self._drop, 3),
            (self._undrop, 3),
            (self._rename, 2),
            (self._register, 1),
            (self._load, 8),
            (self._list, 2),
        ]

    def next(self, intent: str) -> Operation:
        """One more request."""
        if self._first is not None:
            first, self._first = self._first, None
            return Create(first)
        kinds, weights = zip(*self._kinds, strict=True)
        draw: Callable[[str], Operation] = self._rng.choices(kinds, weights)[0]
        return draw(intent)

    def _name(self) -> str:
        return self._rng.choice(NAMES)

    def _create(self, intent: str) -> Create:
        staged = None
        if self._rng.random() < 0.4:
            staged = str(UUID(int=self._rng.getrandbits(128), version=4))
        return Create(self._name(), staged)

    def _mark(self, intent: str) -> Mark:
        return Mark(self._name(), f"m.{intent}")

    def _paint(self, _: str) -> Mark:
        """A property that many set: often there is nothing to do."""
        return Mark(self._name(), "color", self._rng.choice(("red", "blue")))

    def _append(self, intent: str) -> Operation:
        name = self._name()
        seen = self._notes.seen.get(name)
        if seen is None:
            return self._mark(intent)
        return Append(name, seen, self._rng.getrandbits(62))

    def _both(self, intent: str) -> Operation:
        names = ("t1", "t2") if self._rng.random() < 0.7 else ("t1", "t2", "t3")
        return Both(tuple(self._part(name, intent) for name in names))

    def _part(self, name: str, intent: str) -> Change:
        draw = self._rng.random()
        if draw < 0.1:
            return Create(name, str(UUID(int=self._rng.getrandbits(128), version=4)))
        seen = self._notes.seen.get(name)
        if draw < 0.3 and seen is not None:
            return Append(name, seen, self._rng.getrandbits(62))
        return Mark(name, f"m.{intent}")

    def _drop(self, _: str) -> Drop:
        return Drop(self._name(), purge=self._rng.random() < 0.2)

    def _undrop(self, intent: str) -> Operation:
        if not self._notes.ids:
            return self._create(intent)
        return Undrop(self._rng.choice(self._notes.ids[-6:]))

    def _rename(self, _: str) -> Rename:
        return Rename(self._name(), self._name())

    def _register(self, intent: str) -> Operation:
        if not self._notes.locations:
            return self._create(intent)
        return Register(self._name(), self._rng.choice(self._notes.locations[-8:]))

    def _load(self, _: str) -> Load:
        return Load(self._name())

    def _list(self, _: str) -> List:
        return List()
