"""The responses of the lineage API."""

from datetime import datetime
from typing import Literal

import msgspec

Direction = Literal["up", "down", "both"]
NodeKind = Literal["TABLE", "VIEW", "EXTERNAL", "UNKNOWN"]
Reach = Literal["value", "influence", "table"]

DIRECTIONS: tuple[Direction, ...] = ("up", "down", "both")
MAX_DEPTH = 8


class _ResponsePart(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a response."""


class LineageColumn(_ResponsePart, frozen=True, kw_only=True):
    """A column of an edge, by its current name; without an id if the id is unknown."""

    id: str | None
    name: str
    dropped: bool


class LineageNode(_ResponsePart, frozen=True, kw_only=True):
    """A table, by its current or last name.

    A table without an id is EXTERNAL: its id is `external:` and the observed name. UNKNOWN is an id that
    the catalog does not have, or no longer has. `up` and `down` are the steps to it, null if there is no
    path.
    """

    id: str
    name: str
    kind: NodeKind
    dropped: bool
    up: int | None
    down: int | None
    columns: tuple[LineageColumn, ...] = ()


class LineageColumnEdge(_ResponsePart, frozen=True, kw_only=True):
    """An edge from column to column; null stands for all columns of the table."""

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


class LineageRun(_ResponsePart, frozen=True, kw_only=True):
    """A run that observed an edge."""

    execution_id: str
    task_id: str
    observed_at: datetime | None


class LineageEdge(_ResponsePart, frozen=True, kw_only=True):
    """An edge from a table that was read to a table that was written.

    `soundness` has all values of the edges between the two tables, `column_edges` the number of those
    between columns. `pipeline_id` and `execution_id` are of the newest edge. `columns` and `runs` are set
    if the request asks for them.
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


class Lineage(_ResponsePart, frozen=True, kw_only=True):
    """The tables that a table is made of and those made of it, the nearest first.

    A response beyond the size limit is `truncated`: the farthest tables are left out.
    """

    table_id: str
    direction: Direction
    depth: int
    truncated: bool
    nodes: tuple[LineageNode, ...]
    edges: tuple[LineageEdge, ...]


class ImpactStep(_ResponsePart, frozen=True, kw_only=True):
    """One step downstream: the column that it leads to, and how. Null stands for all columns."""

    table_id: str
    column: str | None
    transformation: str
    reach: Reach


class ImpactedColumn(_ResponsePart, frozen=True, kw_only=True):
    """A column that depends on another. `reach` is that of the weakest step of `path`, which ends here."""

    table_id: str
    column: str | None
    column_id: str | None
    reach: Reach
    distance: int
    path: tuple[ImpactStep, ...]


class Impact(_ResponsePart, frozen=True, kw_only=True):
    """All columns that depend on a column: by its values, by its influence, or only as their tables do."""

    table_id: str
    column: str
    column_id: str | None
    truncated: bool
    nodes: tuple[LineageNode, ...]
    affected: tuple[ImpactedColumn, ...]
