"""The draft of a table's metadata: a copy of the base that takes the updates of a commit.

The top level is copied once and a list when it is first changed; items of lists are replaced, never
changed. So a commit to a table with many snapshots costs as little as one to a table with few.
"""

from collections.abc import Callable
from typing import cast

from arco.core.errors import Invalid
from arco.core.json import Json
from arco.iceberg.engine.metadata import (
    NO_SNAPSHOT,
    Metadata,
    current_snapshot_id,
    objects_of,
    refs_of,
)
from arco.iceberg.engine.shape import Object

DEFAULT_VERSION = 2


class TableDraft:
    """The metadata of a commit, and what its updates have changed so far."""

    def __init__(self, base: Metadata | None, *, format_version: int, now_ms: int) -> None:
        self.base = base
        self.top: Metadata = dict(base) if base is not None else _empty(format_version)
        self.changed = base is None
        self.layout_changed = base is None  # a schema, spec or order
        # Clocks differ, but the times in a table's log may not go backwards.
        self.updated_ms = max(now_ms, self.number("last-updated-ms"))
        self.last_schema_id: int | None = (
            None  # the last one added in this commit, which -1 refers to
        )
        self.last_spec_id: int | None = None
        self.last_order_id: int | None = None
        self.added_snapshots: set[int] = set()
        self.logged = 0  # entries that this commit added to the snapshot log
        self.main_was: set[int] = set()  # the snapshots that this commit set main to
        self.snapshots_removed = False
        self._own: set[str] = set()
        self._fingerprints: dict[tuple[str, int], dict[bytes, int]] = {}
        self._by_id: dict[int, Object] | None = None

    @property
    def format_version(self) -> int:
        """The current format version."""
        return self.number("format-version")

    @property
    def properties(self) -> dict[str, str]:
        """The current properties."""
        return cast("dict[str, str]", self.top["properties"])

    @property
    def refs(self) -> dict[str, Object]:
        """The current branches and tags."""
        return refs_of(self.top)

    @property
    def snapshot_id(self) -> int | None:
        """The id of the current snapshot."""
        return current_snapshot_id(self.top)

    def number(self, key: str) -> int:
        """A top-level number; 0 if it is missing."""
        return cast("int", self.top.get(key, 0))

    def put(self, key: str, value: Json) -> None:
        """Set a top-level member."""
        self.top[key] = value
        self.changed = True

    def objects(self, key: str) -> list[Object]:
        """A top-level list, read only."""
        return objects_of(self.top, key)

    def own(self, key: str) -> list[Object]:
        """A top-level list, copied so that it can be changed."""
        if key not in self._own:
            self._own.add(key)
            self.top[key] = cast("Json", list(self.objects(key)))
        self.changed = True
        return self.objects(key)

    def own_map(self, key: str) -> Object:
        """A top-level map, copied so that it can be changed."""
        if key not in self._own:
            self._own.add(key)
            self.top[key] = dict(cast("Object", self.top[key]))
        self.changed = True
        return cast("Object", self.top[key])

    def replace(self, key: str, items: list[Object]) -> None:
        """Set a top-level list."""
        self._own.add(key)
        self._fingerprints.clear()
        self.put(key, cast("Json", items))

    def put_ref(self, name: str, ref: Object) -> None:
        """Set a branch or tag."""
        self.own_map("refs")[name] = ref

    def drop_ref(self, name: str) -> None:
        """Remove a branch or tag."""
        del self.own_map("refs")[name]

    def set_current_snapshot(self, snapshot_id: int | None) -> None:
        """Set the current snapshot; format version 3 writes null for none."""
        none = None if self.format_version > DEFAULT_VERSION else NO_SNAPSHOT
        self.put("current-snapshot-id", none if snapshot_id is None else snapshot_id)

    @property
    def snapshots(self) -> dict[int, Object]:
        """All snapshots by id; built on first use, and updated by the functions that change them."""
        if self._by_id is None:
            self._by_id = {
                cast("int", each["snapshot-id"]): each for each in self.objects("snapshots")
            }
        return self._by_id

    def fingerprints(
        self, key: str, id_key: str, size: int, fingerprint: Callable[[Object], bytes]
    ) -> dict[bytes, int]:
        """The ids of those items of a list that have `size` fields, by fingerprint; to add to.

        It is made once, so that a commit which adds many need not compare each with all.
        """
        if (key, size) not in self._fingerprints:
            same_size = [each for each in self.objects(key) if _size(each) == size]
            # Of two with the same meaning the first is used.
            fingerprints = {
                fingerprint(each): cast("int", each[id_key]) for each in reversed(same_size)
            }
            self._fingerprints[key, size] = fingerprints
        return self._fingerprints[key, size]

    def schema(self, schema_id: int) -> Object | None:
        """The schema with this id."""
        return self._find("schemas", "schema-id", schema_id)

    def spec(self, spec_id: int) -> Object | None:
        """The partition spec with this id."""
        return self._find("partition-specs", "spec-id", spec_id)

    def order(self, order_id: int) -> Object | None:
        """The sort order with this id."""
        return self._find("sort-orders", "order-id", order_id)

    def current_schema(self) -> Object:
        """The current schema; a new table may have none yet."""
        schema = self.schema(self.number("current-schema-id"))
        if schema is None:
            raise Invalid("the table has no schema yet: add one first")
        return schema

    def _find(self, key: str, id_key: str, wanted_id: int) -> Object | None:
        return next((each for each in self.objects(key) if each.get(id_key) == wanted_id), None)


def _size(fields_holder: Object) -> int:
    return len(cast("list[Json]", fields_holder["fields"]))


def _empty(format_version: int) -> Metadata:
    """The empty metadata of a new table, in the order of members in files."""
    lineage: Metadata = {"next-row-id": 0} if format_version > DEFAULT_VERSION else {}
    sequence: Metadata = {"last-sequence-number": 0} if format_version > 1 else {}
    return {
        "format-version": format_version,
        "table-uuid": None,
        "location": None,
        **sequence,
        "last-updated-ms": 0,
        "last-column-id": 0,
        "current-schema-id": 0,
        "schemas": [],
        "default-spec-id": 0,
        "partition-specs": [],
        "last-partition-id": 0,
        "default-sort-order-id": 0,
        "sort-orders": [],
        "properties": {},
        "current-snapshot-id": None if format_version > DEFAULT_VERSION else NO_SNAPSHOT,
        **lineage,
        "refs": {},
        "snapshots": [],
        "statistics": [],
        "partition-statistics": [],
        "snapshot-log": [],
        "metadata-log": [],
    }
