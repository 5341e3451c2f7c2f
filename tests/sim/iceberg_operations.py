"""What users of the simulated Iceberg catalog ask for, and what each request makes of a table.

Requests are built here as clients send them; what they come to is stated once more, in the few terms in
which the auditor sees a table, so that the code that is judged does not judge itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from arco.core.json import Json
from arco.iceberg.wire import CommitTableRequest, CreateTableRequest, Identifier

NAMESPACE = ("ns",)
CATALOG = "default"

_LONG_AGO_MS = 1_767_200_000_000  # by no clock in the future

_SCHEMA: dict[str, Json] = {
    "type": "struct",
    "schema-id": 0,
    "fields": [{"id": 1, "name": "a", "required": False, "type": "long"}],
}


@dataclass(frozen=True)
class Facts:
    """A table's metadata, as far as requests change them."""

    uuid: str
    location: str
    properties: dict[str, str]
    snapshots: tuple[int, ...]
    main: int | None
    sequence: int


def read_facts(raw: bytes) -> Facts:
    """What a metadata file says."""
    metadata: dict[str, Any] = msgspec.json.decode(raw)
    main = metadata.get("refs", {}).get("main", {}).get("snapshot-id")
    return Facts(
        uuid=metadata["table-uuid"],
        location=metadata["location"],
        properties=metadata.get("properties", {}),
        snapshots=tuple(each["snapshot-id"] for each in metadata.get("snapshots", [])),
        main=main,
        sequence=metadata.get("last-sequence-number", 0),
    )


@dataclass(frozen=True)
class Mark:
    """Set a property that no other intent sets; nothing but a missing table can refuse it."""

    name: str
    key: str
    value: str = "1"

    def request(self) -> CommitTableRequest:
        updates: dict[str, Json] = {self.key: self.value}
        return _commit(self.name, [], [{"action": "set-properties", "updates": updates}])

    def is_refused(self, before: Facts) -> bool:
        return False

    def fits(self, before: Facts, after: Facts) -> bool:
        """Whether this, and nothing else, leads from one to the other."""
        wanted = {**before.properties, self.key: self.value}
        return after == _with(before, properties=wanted)

    def is_applied(self, facts: Facts) -> bool:
        return facts.properties.get(self.key) == self.value


@dataclass(frozen=True)
class Append:
    """Add a snapshot to `main`, if that is still as it was last seen."""

    name: str
    seen: Facts
    snapshot: int

    def request(self) -> CommitTableRequest:
        seen = self.seen
        requirements: list[dict[str, Json]] = [
            {"type": "assert-table-uuid", "uuid": seen.uuid},
            {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": seen.main},
        ]
        snapshot: dict[str, Json] = {
            "snapshot-id": self.snapshot,
            "sequence-number": seen.sequence + 1,
            "timestamp-ms": _LONG_AGO_MS,
            "manifest-list": f"{seen.location}/metadata/snap-{self.snapshot}.avro",
            "summary": {"operation": "append"},
            "schema-id": 0,
        }
        if seen.main is not None:
            snapshot["parent-snapshot-id"] = seen.main
        reference: dict[str, Json] = {
            "action": "set-snapshot-ref",
            "ref-name": "main",
            "type": "branch",
            "snapshot-id": self.snapshot,
        }
        return _commit(
            self.name, requirements, [{"action": "add-snapshot", "snapshot": snapshot}, reference]
        )

    def is_refused(self, before: Facts) -> bool:
        seen = self.seen
        return (before.uuid, before.main, before.sequence) != (seen.uuid, seen.main, seen.sequence)

    def fits(self, before: Facts, after: Facts) -> bool:
        wanted = _with(
            before,
            snapshots=(*before.snapshots, self.snapshot),
            main=self.snapshot,
            sequence=before.sequence + 1,
        )
        return after == wanted and not self.is_refused(before)

    def is_applied(self, facts: Facts) -> bool:
        return self.snapshot in facts.snapshots


@dataclass(frozen=True)
class Create:
    """Make a table; a staged one is made by the commit that ends its staging."""

    name: str
    staged: str | None = None  # the uuid that it was given

    def request(self) -> CreateTableRequest:
        return CreateTableRequest(name=self.name, schema=_SCHEMA)

    def commit(self) -> CommitTableRequest:
        updates: list[dict[str, Json]] = [
            {"action": "assign-uuid", "uuid": self.staged},
            {"action": "upgrade-format-version", "format-version": 2},
            {"action": "add-schema", "schema": _SCHEMA, "last-column-id": 1},
            {"action": "set-current-schema", "schema-id": -1},
            {"action": "add-spec", "spec": {"spec-id": 0, "fields": []}},
            {"action": "set-default-spec", "spec-id": -1},
            {"action": "add-sort-order", "sort-order": {"order-id": 0, "fields": []}},
            {"action": "set-default-sort-order", "sort-order-id": -1},
        ]
        return _commit(self.name, [{"type": "assert-create"}], updates)


Change = Mark | Append | Create


@dataclass(frozen=True)
class Both:
    """Change several tables, all or none."""

    parts: tuple[Change, ...]


@dataclass(frozen=True)
class Drop:
    """Drop a table; with `purge`, for good."""

    name: str
    purge: bool = False


@dataclass(frozen=True)
class Undrop:
    """Bring a dropped table back under the name that it had."""

    table_id: str


@dataclass(frozen=True)
class Rename:
    """Give a table another name."""

    source: str
    target: str


@dataclass(frozen=True)
class Register:
    """Give a name to metadata that are there."""

    name: str
    location: str


@dataclass(frozen=True)
class Load:
    """Look at a table."""

    name: str


@dataclass(frozen=True)
class List:
    """Ask for all names."""


Operation = Mark | Append | Create | Both | Drop | Undrop | Rename | Register | Load | List


def identifier(name: str) -> Identifier:
    return Identifier(namespace=NAMESPACE, name=name)


def _commit(
    name: str, requirements: Sequence[dict[str, Json]], updates: Sequence[dict[str, Json]]
) -> CommitTableRequest:
    return CommitTableRequest(
        requirements=tuple(requirements), updates=tuple(updates), identifier=identifier(name)
    )


def _with(facts: Facts, **changes: object) -> Facts:
    return replace(facts, **changes)  # type: ignore[arg-type]  # as the caller has them
