"""What the log of the store says about Iceberg tables: chains, transactions, names and metadata files.

From these follows what was to be seen at each position of the log: a name leads to a table if the catalog's
newest manifest says so and the table's chain has an effective version then.
"""

import re
from bisect import bisect_right
from dataclasses import dataclass, field

import msgspec

from arco.core.scope import Scope
from arco.iceberg.pointer import POINTERS, Pointer
from arco.iceberg.transaction_record import TRANSACTIONS, TransactionOutcome
from arco.storage.chain import SHORTEST_RETENTION_MS
from arco.storage.entry import Entry, read_entry
from arco.storage.hint import FloorBody

from .catalog_files import State, lay
from .catalog_history import CatalogHistory
from .iceberg_api import ROOT_URL
from .iceberg_operations import Facts, read_facts
from .objects import Mutation, SimObjects

_KEY = re.compile(rb'"idempotency_key":"([0-9a-f-]{36}:\d+)"')


@dataclass(frozen=True)
class Version:
    """One number of a table's chain."""

    table_id: str
    number: int
    entry: Entry
    pointer: Pointer
    position: int
    at_ms: float

    @property
    def is_tombstone(self) -> bool:
        return bool(self.entry.record.tombstone)


@dataclass(frozen=True)
class Decision:
    """The outcome of a transaction."""

    committed: bool
    position: int


@dataclass(frozen=True)
class CommittedOperation:
    """A change of names that the catalog has committed for an actor."""

    actor: str
    table_id: str
    position: int


@dataclass
class Names:
    """What the catalog says at one manifest: the ids of live names, and where each was born."""

    position: int
    ids: dict[str, str] = field(default_factory=dict)
    born: dict[str, int] = field(default_factory=dict)  # by id


class IcebergHistory:
    """Follows the log once, and says what was wrong on the way."""

    def __init__(self, objects: SimObjects) -> None:
        self.chains: dict[str, list[Version]] = {}
        self.decisions: dict[str, Decision] = {}
        self.operations: list[CommittedOperation] = []
        self.names: list[Names] = [Names(-1)]
        self.files: dict[str, bytes] = {}  # every metadata file that ever was, by location
        self.made: dict[str, int] = {}  # where in the log it was made
        self.deleted: dict[str, int] = {}
        self.receipts: set[str] = set()  # names of those that say that a commit was reported
        self.reported: set[bytes] = set()  # what events of the ledger report
        self._floors: dict[str, int] = {}
        self._facts: dict[str, Facts] = {}
        catalog = CatalogHistory(objects)
        self.wrong: list[str] = catalog.wrong
        for position, mutation in enumerate(objects.log):
            self._follow(position, mutation)
        self._name(catalog)
        self._changes = self._all_changes()
        self._visible: list[dict[str, tuple[str, str]]] = [
            self._see(position + 1) for position in self._changes
        ]

    def facts(self, location: str) -> Facts | None:
        """What a metadata file says; None if it never was."""
        if location not in self._facts:
            raw = self.files.get(location)
            if raw is None:
                return None
            self._facts[location] = read_facts(raw)
        return self._facts[location]

    def seen(self, sent: int, answered: int) -> list[dict[str, tuple[str, str]]]:
        """All that was to be seen between two positions: id and metadata location of each name."""
        first = bisect_right(self._changes, sent - 1) - 1
        last = bisect_right(self._changes, answered - 1) - 1
        before = [{}] if first < 0 else [self._visible[first]]
        return before + self._visible[first + 1 : last + 1]

    def effective(self, table_id: str, length: int) -> str | None:
        """The metadata in effect when the log had this length; None if there was no table."""
        versions = [each for each in self.chains.get(table_id, ()) if each.position < length]
        return None if not versions else self.effect(versions[-1], length)

    def effect(self, version: Version, length: int) -> str | None:
        """What is in effect if this is the end of its chain."""
        pointer = version.pointer
        if version.is_tombstone:
            return None
        if pointer.transaction is None:
            return pointer.metadata_location
        decision = self.decisions.get(pointer.transaction)
        if decision is not None and decision.position < length and decision.committed:
            return pointer.metadata_location
        return pointer.previous_location

    def floor(self, table_id: str) -> int:
        """The number below which a chain was collected."""
        return self._floors.get(table_id, 0)

    def named(self, length: int) -> dict[str, str]:
        """The ids of names, as the catalog has them when the log has this length."""
        index = bisect_right(self.names, length - 1, key=lambda names: names.position)
        return self.names[index - 1].ids

    def _follow(self, position: int, mutation: Mutation) -> None:
        path = mutation.key.removeprefix(Scope().prefix)
        parts = path.split("/")
        if path.startswith("warehouse/"):
            self._follow_file(position, mutation, ROOT_URL + path)
        elif path.startswith(f"{POINTERS}/") and parts[-1].partition(".")[0].isdigit():
            self._follow_chain(position, mutation, parts)
        elif mutation.verb != "create":
            if mutation.verb == "delete" and path.startswith(TRANSACTIONS):
                self.wrong.append(f"{path} was deleted")
        elif path.startswith("events/"):
            self.receipts.add(parts[-1].partition(".")[0])
        elif path.startswith("ledger/executions/"):
            self.reported |= set(_KEY.findall(mutation.body))
        elif path.startswith(f"{TRANSACTIONS}/") and parts[-1] == "outcome.json":
            outcome = msgspec.json.decode(mutation.body, type=TransactionOutcome)
            self.decisions[parts[2]] = Decision(outcome.committed, position)

    def _follow_chain(self, position: int, mutation: Mutation, parts: list[str]) -> None:
        table, number = parts[2], int(parts[-1].partition(".")[0])
        if parts[3] == "floor":
            if mutation.verb == "create":
                floor = read_entry(mutation.body, number, table).body(FloorBody).floor
                self._floors[table] = max(floor, self._floors.get(table, 0))
        elif mutation.verb == "create":
            self._follow_pointer(position, mutation, table, number)
        elif number >= self._floors.get(table, 0):
            self.wrong.append(f"number {number} of {table} was deleted above its floor")
        else:
            following = self.chains[table][number + 1]
            age_ms = mutation.at_ms - following.at_ms
            if age_ms < SHORTEST_RETENTION_MS:
                self.wrong.append(
                    f"number {number} of {table} went when it was old for {age_ms:.0f} ms"
                )

    def _follow_file(self, position: int, mutation: Mutation, location: str) -> None:
        if mutation.verb == "delete":
            self.deleted[location] = position
        else:
            self.files[location] = mutation.body
            self.made[location] = position

    def _follow_pointer(self, position: int, mutation: Mutation, table: str, number: int) -> None:
        entry = read_entry(mutation.body, number, table)
        chain = self.chains.setdefault(table, [])
        if number < self._floors.get(table, 0):
            return  # a process that slept has created again what was collected, and gets an error (P7)
        if number != len(chain):
            self.wrong.append(f"number {number} of {table} was made, and {len(chain)} was due")
        elif chain and entry.record.parent_sha256 != chain[-1].entry.sha256():
            self.wrong.append(f"number {number} of {table} does not follow its parent")
        made = Version(table, number, entry, entry.body(Pointer), position, mutation.at_ms)
        chain.append(made)

    def _name(self, catalog: CatalogHistory) -> None:
        state: State = {}
        orders: dict[tuple[str, tuple[object, ...]], tuple[int, int]] = {}
        read_paths: set[str] = set()
        for version in catalog.versions:
            for table, ref in catalog.files(version.manifest):
                if table == "tables" and ref.path not in read_paths:
                    read_paths.add(ref.path)
                    lay(state, orders, table, catalog.bodies[ref.path])
            names = Names(version.position)
            for (table, _), row in state.items():
                if table != "tables" or row.get("dropped_at") or row.get("_moved"):
                    continue
                if row["name"] in names.ids:
                    self.wrong.append(f"manifest {version.number} has two tables {row['name']}")
                names.ids[row["name"]] = row["table_id"]
                names.born[row["table_id"]] = row["born"]
            self.names.append(names)
            for operation in version.commit.operations:
                self.operations.append(
                    CommittedOperation(operation.actor, operation.object_id, version.position)
                )

    def _all_changes(self) -> list[int]:
        positions = {names.position for names in self.names if names.position >= 0}
        positions |= {each.position for chain in self.chains.values() for each in chain}
        positions |= {decision.position for decision in self.decisions.values()}
        return sorted(positions)

    def _see(self, length: int) -> dict[str, tuple[str, str]]:
        tables = {}
        for name, table_id in self.named(length).items():
            location = self.effective(table_id, length)
            if location is not None:
                tables[name] = (table_id, location)
        return tables
