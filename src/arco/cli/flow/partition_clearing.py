"""Clearing partitions: one commit removes their rows, and events record that they were never made.

The commit decides, and names its own attempt (P35): an attempt that runs on one of the partitions loses it,
and cannot bring its rows back. An event before the commit says where to look for it, so that the next plan
or run completes a clearing whose process died (ADR 77).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

import msgspec

from arco.catalog.name import parse_dotted
from arco.catalog.publication import ATTEMPT_PROPERTY, DispatchedAttempt
from arco.core import json
from arco.core.errors import (
    ArcoError,
    Conflict,
    Denied,
    Invalid,
    NotFound,
    Unavailable,
    Unknown,
)
from arco.core.ids import new_ulid
from arco.events.partition_key import parse_partition_key
from arco.flow.coordinator.clearing import Clearing
from arco.flow.plan.keys import short_name
from arco.flow.publish.wire import FilesStaged

if TYPE_CHECKING:
    from arco.client import Arco
    from arco.core.runtime import Runtime
    from arco.flow.coordinator.ports import RunEvent
    from arco.flow.plan.table_state import TableState

_ICEBERG, _PARQUET = "ICEBERG", "PARQUET"
_EVENTS_PER_REQUEST = 2_000


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
            return self._clear_parquet(keys)
        if self.state.format == _ICEBERG:
            return self._clear_iceberg(keys)
        raise Invalid(f"{short_name(self.table)} is of a format whose partitions cannot be cleared")

    @property
    def _table_id(self) -> str:
        assert self.state.table_id is not None  # noqa: S101 - `chosen_partitions` has refused it
        return self.state.table_id

    def _clear_parquet(self, keys: tuple[str, ...]) -> int:
        current = self.arco.tables.files_of(self._table_id)

        def commit(attempt: DispatchedAttempt) -> int:
            staged = FilesStaged(
                table_id=self._table_id,
                attempt=attempt,
                mode="replace_partition",
                files=dict.fromkeys(keys, ()),
            )
            return self.arco.tables.publish_files(staged).number

        return self._commit(keys, current.number, commit)

    def _clear_iceberg(self, keys: tuple[str, ...]) -> int:
        from pyiceberg.catalog import load_catalog
        from pyiceberg.exceptions import (
            CommitFailedException,
            ForbiddenError,
            ValidationException,
        )

        catalog, *levels = parse_dotted(self.table)
        options = {"token": self.token} if self.token else {}
        rest = load_catalog(
            "arco", type="rest", uri=f"{self.arco.url}/iceberg", warehouse=catalog, **options
        )
        table = rest.load_table(tuple(levels))

        def commit(attempt: DispatchedAttempt) -> int:
            attempt_json = msgspec.json.encode(attempt).decode()
            try:
                table.delete(
                    _rows_of(table, keys), snapshot_properties={ATTEMPT_PROPERTY: attempt_json}
                )
            except (CommitFailedException, ValidationException) as lost:
                raise Conflict(
                    f"{short_name(self.table)} was changed meanwhile, and nothing was cleared: try again"
                ) from lost
            except ForbiddenError as refused:  # without the right, or fenced by another attempt
                raise Denied(f"nothing was cleared: {refused}") from refused
            return _number(table.metadata_location)

        return self._commit(keys, _number(table.metadata_location), commit)

    def _commit(
        self, keys: tuple[str, ...], number: int, commit: Callable[[DispatchedAttempt], int]
    ) -> int:
        """Commit between the events that say that it begins, and what it has done."""
        clearing = Clearing(new_ulid(self.runtime), self._table_id, number)
        self._record([clearing.begun(self._now_ms())])
        try:
            version = commit(clearing.attempt(keys, self._now_ms()))
        except (Unknown, Unavailable):
            raise  # it may have happened: the next plan or run finds out
        except ArcoError as refused:
            self._record([clearing.refused(str(refused), self._now_ms())])
            raise
        self._record([*clearing.cleared(keys, version, self._now_ms())])
        return version

    def _record(self, events: "Sequence[RunEvent]") -> None:
        from arco.core.clock import utc

        now = utc(self._now_ms()).isoformat()
        lines = [_line(event, now) for event in events]
        for start in range(0, len(lines), _EVENTS_PER_REQUEST):
            sent = self.arco.events.send_lines(lines[start : start + _EVENTS_PER_REQUEST])
            if sent.rejected:
                raise Unavailable(
                    f"what became of the partitions could not be recorded: {sent.rejected[0].reason}; "
                    "the next plan or run does that"
                )

    def _now_ms(self) -> int:
        return self.runtime.clock.now_ms()


def _line(event: "RunEvent", occurred_at: str) -> bytes:
    return json.encode(
        {
            "event_type": event.name,
            "event_version": 1,
            "occurred_at": occurred_at,
            "idempotency_key": event.key,
            "source": {"type": "flow"},
            "payload": event.payload,
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
