"""Requirements of a commit: conditions that must still hold, or the client has to read the table again.

A requirement that does not hold is a `Conflict`; clients and tests know the messages.

Some clients send a commit again without a key when its answer is lost. The second one fails, since the
first has moved the branch, and the client then deletes the files of what it takes for a failure:
committed rows. A snapshot names a manifest list with a unique path, so a table that holds that snapshot
has already taken the request: `was_applied`.
"""

from collections.abc import Callable, Mapping, Sequence

from arco.core.errors import Conflict, Invalid
from arco.core.json import Json
from arco.iceberg.engine import shape
from arco.iceberg.engine.metadata import Metadata, refs_of
from arco.iceberg.engine.shape import Object

_CREATE = "assert-create"

_NUMBERS = {
    "assert-last-assigned-field-id": (
        "last-assigned-field-id",
        "last-column-id",
        "last assigned field id",
    ),
    "assert-current-schema-id": ("current-schema-id", "current-schema-id", "current schema"),
    "assert-last-assigned-partition-id": (
        "last-assigned-partition-id",
        "last-partition-id",
        "last assigned partition id",
    ),
    "assert-default-spec-id": ("default-spec-id", "default-spec-id", "default partition spec"),
    "assert-default-sort-order-id": (
        "default-sort-order-id",
        "default-sort-order-id",
        "default sort order",
    ),
}
ADD = "add-snapshot"


def is_create(requirements: Sequence[Json]) -> bool:
    """Whether a commit creates a table; it may then have no other requirement."""
    kinds = [shape.text(each, "type", "a requirement") for each in _read(requirements)]
    if _CREATE not in kinds:
        return False
    others = sorted({kind for kind in kinds if kind != _CREATE})
    if others:
        raise Invalid(f"Invalid create requirements: {', '.join(others)}")
    return True


def check_requirements(base: Metadata | None, requirements: Sequence[Json]) -> None:
    """`Conflict` unless all `requirements` hold for `base`; None means that there is no table."""
    for requirement in _read(requirements):
        kind = str(requirement["type"])
        if kind == _CREATE:
            if base is not None:
                raise requirement_failed("table already exists")
            continue
        if base is None:
            raise requirement_failed("table does not exist")
        _CHECKS[kind](base, requirement)


def _read(requirements: Sequence[Json]) -> list[Object]:
    read = [shape.as_object(each, "a requirement") for each in requirements]
    kinds = {shape.text(each, "type", "a requirement") for each in read}
    unknown = sorted(kinds - _CHECKS.keys() - {_CREATE})
    if unknown:
        raise Invalid(f"unknown requirements of a table: {', '.join(unknown)}")
    return read


def requirement_failed(reason: str) -> Conflict:
    """A requirement does not hold: the client reads the table again and retries."""
    error = Conflict(f"Requirement failed: {reason}")
    error.has_public_message = True
    return error


def _uuid(base: Metadata, requirement: Object) -> None:
    required_uuid = shape.text(requirement, "uuid", "assert-table-uuid")
    table_uuid = base["table-uuid"]
    if required_uuid.lower() != str(table_uuid).lower():
        raise requirement_failed(f"UUID does not match: expected {table_uuid} != {required_uuid}")


def _ref(base: Metadata, requirement: Object) -> None:
    name = shape.text(requirement, "ref", "assert-ref-snapshot-id")
    required_snapshot = shape.maybe_long(requirement, "snapshot-id", "assert-ref-snapshot-id")
    ref = refs_of(base).get(name)
    if ref is None:
        if required_snapshot is not None:
            raise requirement_failed(
                f"branch or tag {name} is missing, expected {required_snapshot}"
            )
        return
    kind, snapshot_id = ref["type"], ref["snapshot-id"]
    if required_snapshot is None:
        raise requirement_failed(f"{kind} {name} was created concurrently")
    if required_snapshot != snapshot_id:
        raise requirement_failed(
            f"{kind} {name} has changed: expected id {required_snapshot} != {snapshot_id}"
        )


def _number(kind: str, key: str, top: str, words: str) -> Callable[[Metadata, Object], None]:
    def check(base: Metadata, requirement: Object) -> None:
        required_value = shape.integer(requirement, key, kind)
        if required_value != base[top]:
            raise requirement_failed(
                f"{words} changed: expected id {required_value} != {base[top]}"
            )

    return check


_CHECKS: Mapping[str, Callable[[Metadata, Object], None]] = {
    "assert-table-uuid": _uuid,
    "assert-ref-snapshot-id": _ref,
    **{kind: _number(kind, *names) for kind, names in _NUMBERS.items()},
}


def was_applied(base: Metadata, updates: Sequence[dict[str, Json]]) -> bool:
    """Whether the updates add snapshots that are all in the table, with equal ids and files."""
    added = [_snapshot_key(each.get("snapshot")) for each in updates if each.get("action") == ADD]
    snapshots = base.get("snapshots")
    if not added or not isinstance(snapshots, list):
        return False
    snapshot_keys = {_snapshot_key(each) for each in snapshots}
    return None not in added and snapshot_keys.issuperset(added)


def _snapshot_key(snapshot: Json) -> tuple[Json, str] | None:
    """The id and manifest list of a snapshot, which are unique; None without a manifest list."""
    if not isinstance(snapshot, dict):
        return None
    files = snapshot.get("manifest-list")
    return (snapshot.get("snapshot-id"), files) if isinstance(files, str) else None
