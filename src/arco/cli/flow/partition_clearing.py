"""Clearing partitions: one commit removes their rows, and an event for each records that it was never made.

The commit names its own attempt (P35): an attempt that runs on one of the partitions loses it, and cannot
bring its rows back. Should the process end between the commit and the events, clearing the same
partitions again completes it.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

import msgspec

from arco.catalog.name import parse_dotted
from arco.catalog.publication import ATTEMPT_PROPERTY, WHOLE_TABLE, DispatchedAttempt
from arco.core import json
from arco.core.errors import Conflict, Invalid, NotFound, Unavailable
from arco.core.ids import new_ulid
from arco.events.partition_key import parse_partition_key
from arco.flow.plan.keys import short_name
from arco.flow.publish.wire import FilesStaged

if TYPE_CHECKING:
    from arco.client import Arco
    from arco.core.runtime import Runtime
    from arco.flow.plan.table_state import TableState

_ICEBERG, _PARQUET = "ICEBERG", "PARQUET"
_ATTEMPT_ID_CHARS = 32


def chosen_partitions(table: str, state: "TableState", named: Sequence[str]) -> tuple[str, ...]:
    """The recorded partitions that are named: keys, values, ranges `a..b` of values, or `all`.

    Partitions are looked for among those that were made, not among those that the project declares now.
    """
    if state.table_id is None:
        raise NotFound(f"there is no table {short_name(table)}")
    made = sorted(state.keys)
    if not made or state.is_source:
        raise NotFound(f"no pipeline has made a partition of {short_name(table)}")
    chosen: dict[str, None] = {}
    for name in named:
        keys = made if name == "all" else [key for key in made if _is_named(key, name)]
        if not keys:
            shown = ", ".join(key or "''" for key in (made[0], made[-1])[: len(made)])
            raise NotFound(
                f"{short_name(table)} has no partition {name!r}: it has {len(made)}, such as {shown}"
            )
        chosen.update(dict.fromkeys(keys))
    return tuple(chosen)


def _is_named(key: str, name: str) -> bool:
    if key == name:
        return True
    values = parse_partition_key(key) or {}
    if len(values) != 1:
        return False
    [(dimension, value)] = values.items()
    first, dots, last = name.removeprefix(f"{dimension}=").partition("..")
    return (not first or first <= value) and (not last or value <= last) if dots else value == first


@dataclass(frozen=True)
class PartitionClearing:
    """Clears partitions of one table; `token` is for the Iceberg catalog of the same Arco."""

    arco: "Arco"
    runtime: "Runtime"
    table: str
    state: "TableState"
    token: str | None

    def clear(self, keys: tuple[str, ...]) -> int:
        """Remove the rows of partitions and their recorded state; the number of the version that did."""
        if self.state.format == _PARQUET:
            number = self._clear_parquet(keys)
        elif self.state.format == _ICEBERG:
            number = self._clear_iceberg(keys)
        else:
            raise Invalid(
                f"{short_name(self.table)} is of a format whose partitions cannot be cleared"
            )
        self._record(keys, number)
        return number

    @property
    def _table_id(self) -> str:
        assert self.state.table_id is not None  # noqa: S101 - `chosen_partitions` has refused it
        return self.state.table_id

    def _attempt(self, keys: tuple[str, ...], number: int) -> DispatchedAttempt:
        ulid = new_ulid(self.runtime)
        attempt_id = ulid.encode().hex()[-_ATTEMPT_ID_CHARS:]
        return DispatchedAttempt(
            attempt_id=attempt_id,
            task=f"{ulid}/clear",
            dispatched_at_number=number,
            dispatched_at_ms=self.runtime.clock.now_ms(),
            partitions=WHOLE_TABLE if "" in keys else keys,
        )

    def _clear_parquet(self, keys: tuple[str, ...]) -> int:
        current = self.arco.tables.files_of(self._table_id)
        staged = FilesStaged(
            table_id=self._table_id,
            attempt=self._attempt(keys, current.number),
            mode="replace_partition",
            files=dict.fromkeys(keys, ()),
        )
        return self.arco.tables.publish_files(staged).number

    def _clear_iceberg(self, keys: tuple[str, ...]) -> int:
        from pyiceberg.catalog import load_catalog
        from pyiceberg.exceptions import CommitFailedException

        catalog, *levels = parse_dotted(self.table)
        options = {"token": self.token} if self.token else {}
        rest = load_catalog(
            "arco", type="rest", uri=f"{self.arco.url}/iceberg", warehouse=catalog, **options
        )
        table = rest.load_table(tuple(levels))
        attempt = self._attempt(keys, _number(table.metadata_location))
        attempt_json = msgspec.json.encode(attempt).decode()
        try:
            table.delete(
                _rows_of(table, keys), snapshot_properties={ATTEMPT_PROPERTY: attempt_json}
            )
        except CommitFailedException as lost:
            raise Conflict(
                f"{short_name(self.table)} was changed meanwhile, and nothing was cleared: try again"
            ) from lost
        return _number(table.metadata_location)

    def _record(self, keys: Iterable[str], number: int) -> None:
        sent = self.arco.events.send_lines([*self._events(keys, number)])
        if sent.rejected:
            raise Unavailable(
                f"the rows are gone, but that could not be recorded: {sent.rejected[0].reason}; clear the "
                "same partitions again"
            )

    def _events(self, keys: Iterable[str], number: int) -> Iterator[bytes]:
        from arco.core.clock import utc

        now = utc(self.runtime.clock.now_ms()).isoformat()
        for key in keys:
            payload = {"table_id": self._table_id, "partition_key": key, "version": number}
            yield json.encode(
                {
                    "event_type": "partition_cleared",
                    "event_version": 1,
                    "occurred_at": now,
                    "source": {"type": "flow"},
                    "payload": payload,
                }
            )


def _number(metadata_location: str) -> int:
    """The number of a version: the catalog begins the names of metadata files with it."""
    return int(metadata_location.rpartition("/")[2].partition("-")[0])


def _rows_of(table: Any, keys: tuple[str, ...]) -> Any:
    """The filter of PyIceberg for the rows of partitions."""
    from pyiceberg import expressions
    from pyiceberg.types import BooleanType, IntegerType, LongType

    made: Any = expressions  # whose constructors are typed for its own parser

    def equal(name: str, value: str) -> Any:
        kind = table.schema().find_type(name, case_sensitive=False)
        if isinstance(kind, IntegerType | LongType):
            return made.EqualTo(name, int(value))
        return made.EqualTo(name, value == "true" if isinstance(kind, BooleanType) else value)

    def rows(key: str) -> Any:
        values = parse_partition_key(key) if key else {}
        return reduce(
            made.And, (equal(*each) for each in (values or {}).items()), made.AlwaysTrue()
        )

    return reduce(made.Or, map(rows, keys), made.AlwaysFalse())
