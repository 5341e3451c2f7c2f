"""What is told of lineage, as it is sent."""

from datetime import datetime
from typing import Literal

import msgspec

Direction = Literal["up", "down", "both"]
NodeKind = Literal["TABLE", "VIEW", "EXTERNAL", "UNKNOWN"]
Reach = Literal["value", "influence", "table"]

DIRECTIONS: tuple[Direction, ...] = ("up", "down", "both")
MAX_DEPTH = 8


class _Told(msgspec.Struct, frozen=True, kw_only=True):
    """A part of an answer."""


class LineageColumn(_Told, frozen=True, kw_only=True):
    """A column that edges tell of, by the name that it has now; without an id if nobody knows it."""

    id: str | None
    name: str
    dropped: bool


class LineageNode(_Told, frozen=True, kw_only=True):
    """A table, by the name that it has now or last had.

    One without an id is EXTERNAL: its id is `external:` and the name that was seen. UNKNOWN is an id that
    the catalog does not have, or has no more. `up` and `down` are the steps to it, null if none lead there.
    """

    id: str
    name: str
    kind: NodeKind
    dropped: bool
    up: int | None
    down: int | None
    columns: tuple[LineageColumn, ...] = ()


class LineageColumnEdge(_Told, frozen=True, kw_only=True):
    """From a column to a column; null stands for all columns of the table."""

    edge_id: str
    source_column: str | None
    source_column_id: str | None
    target_column: str | None
    target_column_id: str | None
    reach: Reach
    transformation: str
    sql: str | None
    soundness: str | None
    first_observed_at: datetime | None
    last_observed_at: datetime | None


class LineageRun(_Told, frozen=True, kw_only=True):
    """A run that has shown an edge."""

    execution_id: str
    task_id: str
    observed_at: datetime | None


class LineageEdge(_Told, frozen=True, kw_only=True):
    """From a table that was read to one that was made of it.

    `soundness` has all that edges between the two say, `column_edges` how many of them are of columns.
    `pipeline_id` and `execution_id` are of the newest. `columns` and `runs` are there if asked for.
    """

    source: str
    target: str
    soundness: tuple[str, ...]
    column_edges: int
    pipeline_id: str | None
    execution_id: str | None
    first_observed_at: datetime | None
    last_observed_at: datetime | None
    columns: tuple[LineageColumnEdge, ...] = ()
    runs: tuple[LineageRun, ...] = ()


class Lineage(_Told, frozen=True, kw_only=True):
    """What a table is made of and what is made of it, the nearest first.

    If there is more than one answer may hold, it is `truncated`: what is farthest was left out.
    """

    table_id: str
    direction: Direction
    depth: int
    truncated: bool
    nodes: tuple[LineageNode, ...]
    edges: tuple[LineageEdge, ...]


class ImpactStep(_Told, frozen=True, kw_only=True):
    """One step downstream: what it leads to, and how. A column that is null stands for all of them."""

    table_id: str
    column: str | None
    transformation: str
    reach: Reach


class ImpactedColumn(_Told, frozen=True, kw_only=True):
    """What depends on a column. `reach` is that of the least sure step of `path`, which ends here."""

    table_id: str
    column: str | None
    column_id: str | None
    reach: Reach
    distance: int
    path: tuple[ImpactStep, ...]


class Impact(_Told, frozen=True, kw_only=True):
    """All that depends on a column: by its values, by its influence, or perhaps, as the tables do."""

    table_id: str
    column: str
    column_id: str | None
    truncated: bool
    nodes: tuple[LineageNode, ...]
    affected: tuple[ImpactedColumn, ...]
