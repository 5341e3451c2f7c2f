"""The auditor of a chain: compares the answers to users with what the store applied.

The chain that counts is the one of first creations. A number that was collected and created
again by a process that had slept is dead: it does no harm while it lies below the floor and no user was
answered that it counts (P7).
"""

from collections import Counter
from itertools import pairwise

from arco.storage.entry import Entry, read_entry
from arco.storage.hint import FloorBody

from .chain_notes import TICK, EntryBody, Notes, State
from .objects import Mutation, SimObjects


class ChainAudit:
    """One run's judgement."""

    def __init__(self, objects: SimObjects, notes: Notes, path: str) -> None:
        self._objects = objects
        self._notes = notes
        self._path = path
        self._floor = 0
        self._chain: dict[int, Entry] = {}  # by number, as first created
        self._heads: list[int] = []  # the head after each entry of the log
        self._wrong: list[str] = []

    def violations(self) -> list[str]:
        """Everything that is wrong, in a stable order."""
        for mutation in self._objects.log:
            self._follow(mutation)
            self._heads.append(max(self._chain, default=-1))
        self._check_links()
        self._check_operations()
        self._check_acknowledgements()
        self._check_sightings()
        self._check_presence()
        self._check_liveness()
        return self._wrong

    def _follow(self, mutation: Mutation) -> None:
        inside, _, name = mutation.key.rpartition("/")
        stem = name.partition(".")[0]
        if not stem.isdigit() or mutation.verb == "put":
            return
        number = int(stem)
        if inside == self._path:
            self._follow_number(mutation, number)
        elif inside == f"{self._path}/floor":
            self._follow_floor(mutation, number)

    def _follow_number(self, mutation: Mutation, number: int) -> None:
        if mutation.verb == "delete":
            if number >= self._floor:
                self._say(f"number {number} was deleted with the floor at {self._floor}")
        elif number not in self._chain:
            self._chain[number] = self._read(mutation.body, number)
        elif number >= self._floor:
            self._say(f"number {number} was created again above the floor, which is {self._floor}")

    def _follow_floor(self, mutation: Mutation, number: int) -> None:
        if mutation.verb == "delete":
            self._say(f"floor {number} was deleted")
            return
        floor = self._read(mutation.body, number).body(FloorBody).floor
        if floor <= self._floor:
            self._say(f"floor {number} says {floor} and is not above {self._floor}")
        if floor not in self._chain:
            self._say(f"floor {number} says {floor}, a number that does not exist")
        self._floor = max(floor, self._floor)

    def _check_links(self) -> None:
        if sorted(self._chain) != list(range(len(self._chain))):
            self._say("the chain has a hole")
            return
        entries = [self._chain[number] for number in range(len(self._chain))]
        for parent, child in pairwise(entries):
            if child.record.parent_sha256 != parent.sha256():
                self._say(f"number {child.number} does not follow its parent")
            if child.record.created_at <= parent.record.created_at:
                self._say(f"number {child.number} is not younger than its parent")

    def _check_operations(self) -> None:
        done = Counter(entry.body(EntryBody).operation for entry in self._chain.values())
        for operation, times in done.items():
            if operation != TICK and times > 1:
                self._say(f"operation {operation} was applied {times} times")

    def _check_acknowledgements(self) -> None:
        acknowledged = [order for order in self._notes.orders if order.state is State.ACKNOWLEDGED]
        by_number = Counter(order.number for order in acknowledged)
        for order in acknowledged:
            entry = self._chain.get(order.number)
            if entry is None or entry.sha256() != order.sha256:
                self._say(f"{order.operation} was acknowledged as {order.number}, which is another")
            if by_number[order.number] > 1:
                self._say(f"number {order.number} was acknowledged to several, {order.operation}")

    def _check_sightings(self) -> None:
        last: dict[str, int] = {}
        for seen in self._notes.sightings:
            low, high = self._head_at(seen.log_before), self._head_at(seen.log_after)
            if not low <= seen.number <= high:
                self._say(f"{seen.reader} was shown {seen.number}, it was {low} to {high}")
            elif seen.number >= 0 and self._chain[seen.number].sha256() != seen.sha256:
                self._say(f"{seen.reader} was shown a dead number {seen.number}")
            if seen.number < last.get(seen.reader, -1):
                self._say(f"{seen.reader} saw the head go back to {seen.number}")
            last[seen.reader] = seen.number

    def _check_presence(self) -> None:
        stored_keys = set(self._objects.keys())
        for number, entry in self._chain.items():
            if number < self._floor:
                continue
            key = f"{self._path}/{number:020d}.json"
            if key not in stored_keys or self._objects.get(key) != entry.raw:
                self._say(f"number {number} is gone, with the floor at {self._floor}")

    def _check_liveness(self) -> None:
        for order in self._notes.orders:
            if order.is_open:
                self._say(f"{order.operation} is still open at the end")
        if not self._notes.collected_in_calm:
            self._say("the janitor could not collect in the calm at the end")
        if not self._notes.read_at_the_end:
            self._say("no cold reader found the head in the calm at the end")

    def _head_at(self, position: int) -> int:
        return self._heads[position - 1] if position else -1

    def _read(self, body: bytes, number: int) -> Entry:
        return read_entry(body, number, self._path)

    def _say(self, what: str) -> None:
        self._wrong.append(what)
