"""Why a plan does not make a partition that is out of date.

`append` adds rows. A partition that was appended once would get its rows a second time if it were made
again, because its code or inputs changed or because somebody forces it. So it is blocked, unless the user
asks for the rows again or the asset declares on_change="replace".
"""

from enum import StrEnum
from typing import NamedTuple

from arco.flow.define.asset import AssetDef
from arco.flow.plan.graph import MakerDef
from arco.flow.plan.judge import Judge, Verdict
from arco.flow.plan.key import short_name
from arco.flow.plan.known import KnownTable
from arco.flow.plan.plan import Reason

_SHOWN_FILES = 3
_MADE_WHATEVER_IS_THERE = frozenset({Reason.FORCED, Reason.FRESHNESS})


class BlockReason(StrEnum):
    """Why a partition is blocked, in one word."""

    APPENDED = "APPENDED"  # its rows are in the table, and would come a second time
    FORMAT = "FORMAT"  # the table is of another format
    PARTITIONING = "PARTITIONING"  # the table has partitions of another shape
    COLUMN_TYPE = "COLUMN_TYPE"  # the last attempt returned a column of another type
    MISSING_COLUMN = "MISSING_COLUMN"  # the last attempt lacked a column of the table


class Block(NamedTuple):
    """That a partition is not made: the reason, the same in a sentence, and what a user can do."""

    reason: BlockReason
    cause: str
    fix: str = ""


def block_of_append(
    maker: MakerDef, judge: Judge, number: int, key: str, verdict: Verdict
) -> Block | None:
    """The block of a partition whose rows would be appended a second time; None if it can be made."""
    if not isinstance(maker, AssetDef) or maker.mode.kind != "append":
        return None
    tables = _appended_again(judge, number, key, verdict)
    if not tables:
        return None
    if maker.mode.on_change == "replace":
        return _block_by_files(tables, key, verdict)
    again = "pass --append-again to add them a second time"
    if maker.partitions:
        fix = f'To replace its rows, declare on_change="replace" on the asset; or {again}'
    else:
        name = short_name(maker.name)
        fix = f"To start over, drop the table (`arco table drop {name}`); or {again}"
    return Block(
        BlockReason.APPENDED,
        f"it was appended before, and making it again would add its rows a second time ({verdict.detail})",
        fix,
    )


def _appended_again(judge: Judge, number: int, key: str, verdict: Verdict) -> list[KnownTable]:
    """The outputs that hold rows of the partition and would get them again.

    An output that is as it would be made now is left alone by the run: a task with several outputs that
    failed between them adds rows only where they are missing. Rows of which nothing is recorded may come
    from an attempt that published and died: the run finds out by the version itself, and refuses to add
    them if they were made by other code or from other data.
    """
    made_anyway = verdict.reason in _MADE_WHATEVER_IS_THERE
    return [
        table
        for table in judge.outputs
        if table.by_key.get(key) is not None
        and table.state.code_fingerprints[table.rows[key]] is not None
        and (made_anyway or not judge.is_current(table, number, key))
    ]


def _block_by_files(tables: list[KnownTable], key: str, verdict: Verdict) -> Block | None:
    """The block of a partition with files that the pipeline did not add: replacing would delete them."""
    files = [path for table in tables for path in table.state.foreign_files.get(key, ())]
    if not files:
        return None
    return Block(
        BlockReason.APPENDED,
        f"its rows should be replaced ({verdict.detail}), but the partition also holds files that no run "
        f"of this pipeline added: {files_shown(files)}",
        "Remove the rows of these files, or pass --append-again to add the new rows as well",
    )


def files_shown(files: list[str]) -> str:
    """A few paths as part of a sentence."""
    shown = ", ".join(files[:_SHOWN_FILES])
    return f"{shown} and {len(files) - _SHOWN_FILES} more" if len(files) > _SHOWN_FILES else shown
