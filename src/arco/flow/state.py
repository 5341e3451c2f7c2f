"""State: what is known of the partitions of tables, as planning needs it.

Kept by column, since a table may have a hundred thousand of them. A `material` names the data of a
partition: it is another one whenever the data are others. For tables of pipelines it is the attempt that
published them; for tables of others it follows from the files of the partition, or, where these cannot be
told apart, from the version of the whole table.
"""

from collections.abc import Sequence
from typing import Protocol

import msgspec


class ColumnChange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A column in which the result of an attempt differs from the table; types as Spark writes them.

    Without `before` the table lacks it, without `after` the result does.
    """

    table: str
    column: str
    before: str | None = None
    after: str | None = None


class LastAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """The last attempt that was made for a table, if its columns were others than those of the table."""

    task: str
    run_id: str
    status: str
    ended_at_ms: int
    code_fingerprint: str
    changes: tuple[ColumnChange, ...] = ()


class TableState(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """What is known of one table. The columns are of the same length; `keys` names the partitions.

    `statuses` are COMPLETE, FAILED, RUNNING or PENDING, of the last attempt; a material that is not None
    says that there are data, whatever became of later attempts. `made_at_ms` is when they were published.
    `is_source`: no pipeline makes it, so its materials are told by its files, and asked anew for each task.
    """

    table_id: str | None = None  # None: there is no such table yet
    format: str | None = None
    version: str | None = None  # of the whole table, if its format can tell
    changed_at_ms: int | None = None
    others_at_ms: int | None = (
        None  # when somebody who is no pipeline last wrote data, if that is told
    )
    others: str | None = None  # the program that did
    keys: tuple[str, ...] = ()
    statuses: tuple[str, ...] = ()
    materials: tuple[str | None, ...] = ()
    input_fingerprints: tuple[str | None, ...] = ()
    code_fingerprints: tuple[str | None, ...] = ()
    made_at_ms: tuple[int | None, ...] = ()
    is_source: bool = False
    last_attempt: LastAttempt | None = None
    # By partition, the files that no pipeline added; only of tables for which that was asked.
    foreign_files: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)


class State(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of some tables, by their full names, and the values of dynamic dimensions."""

    number: int  # of the manifest of `executions` that it was read from; fresh facts may be newer
    tables: dict[str, TableState]
    dynamic: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)


class StateReader(Protocol):
    """Whoever can tell the state of tables."""

    async def state(self, tables: Sequence[str], files_of: Sequence[str] = ()) -> State:
        """What is known now of these tables, acknowledged facts included.

        Of the tables in `files_of` it also says which files no pipeline added.
        """
