"""What is recorded about the partitions of tables, as planning and the coordinator read it.

Kept in columns, since a table may have a hundred thousand partitions. A `material` identifies the data of a
partition and changes with them. For tables of pipelines it is the attempt that published the data; for
source tables it is derived from the files of the partition, or else from the version of the whole table.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec

# Names of the metrics of an attempt that planning reads back.
CODE_METRIC = "code_fingerprint"
CODE_PARTS_METRIC = "code_parts"
COLUMN_CHANGES_METRIC = "column_changes"
INPUTS_METRIC = "input_fingerprint"  # of a task that writes no table


class ColumnChange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A column in which the result of an attempt differs from the table; types as Spark writes them.

    Without `before` the table lacks it, without `after` the result does.
    """

    table: str
    column: str
    before: str | None = None
    after: str | None = None


class LastAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """The last attempt that wrote a table, if the columns of its result differ from the table's."""

    task: str
    run_id: str
    status: str
    ended_at_ms: int
    code_fingerprint: str
    changes: tuple[ColumnChange, ...] = ()


class TableState(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The state of one table. The columns have the same length; `keys` names the partitions.

    `statuses` are COMPLETE, FAILED, RUNNING or PENDING, of the last attempt. A material that is not None
    means that the partition has data, whatever later attempts did; `made_at_ms` is when.
    `is_source`: no pipeline writes the table, so materials come from its files and are read for each task.
    """

    table_id: str | None = None  # None: the table does not exist yet
    format: str | None = None
    version: str | None = None  # of the whole table, if its format has one
    changed_at_ms: int | None = None
    others_at_ms: int | None = (
        None  # the last write by a program other than a pipeline, if recorded
    )
    others: str | None = None  # that program
    keys: tuple[str, ...] = ()
    statuses: tuple[str, ...] = ()
    materials: tuple[str | None, ...] = ()
    input_fingerprints: tuple[str | None, ...] = ()
    code_fingerprints: tuple[str | None, ...] = ()
    made_at_ms: tuple[int | None, ...] = ()
    is_source: bool = False
    last_attempt: LastAttempt | None = None
    # By partition, the files that no pipeline added; only of tables for which that was requested.
    foreign_files: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)


class PlanningState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of some tables, by their full names, and the values of dynamic dimensions."""

    number: int  # of the manifest of `executions` that was read; fresh events may be newer
    tables: dict[str, TableState]
    dynamic: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)


class StateReader(Protocol):
    """Reads the state of tables."""

    async def state(
        self, tables: Sequence[str], files_of: Sequence[str] = (), *, caller: str | None = None
    ) -> PlanningState:
        """The state of these tables now, including all acknowledged events.

        For the tables in `files_of` it also lists the files that no pipeline added. `caller` is whose share
        of the SQL processes it uses; None stands for Arco itself.
        """


class SourceVersions(Protocol):
    """Identifies the data of tables that no pipeline writes."""

    async def versions(
        self, table_id: str, table_format: str
    ) -> tuple[str | None, Mapping[str, str]]:
        """The version of the whole table, and materials by partition if its format separates them."""


@dataclass(frozen=True)
class UnprovenFile:
    """A data file that the metadata of its table do not attribute to a pipeline.

    `snapshot_id` names the snapshot that added it.
    """

    partition: str
    path: str
    snapshot_id: str


class TableContents(SourceVersions, Protocol):
    """Reads what tables hold, tables of pipelines included."""

    async def unproven_files(self, table_id: str, table_format: str) -> tuple[UnprovenFile, ...]:
        """The files that other programs may have added, of tables that are partitioned by columns."""
