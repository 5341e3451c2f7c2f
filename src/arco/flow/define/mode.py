"""How the rows of a run enter their table."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from arco.flow.define.collect import complain

ModeKind = Literal["replace_partition", "replace", "append", "merge"]
Format = Literal["iceberg", "parquet"]
OnMissingColumn = Literal["fail", "null", "drop"]
OnChange = Literal["block", "replace"]


@dataclass(frozen=True)
class Mode:
    """A way to write; `on` are the columns that tell rows apart when merging.

    `on_change` is about `append` alone: what happens to a partition that was appended once when its code or
    its inputs change. "block" leaves its rows alone, "replace" removes them and adds the new ones.
    """

    kind: ModeKind
    on: tuple[str, ...] = ()
    on_change: OnChange = "block"


def merge(on: Sequence[str]) -> Mode:
    """Rows replace those with the same values in the columns `on`, and the others are added."""
    columns = (on,) if isinstance(on, str) else tuple(on)
    if not columns:
        complain("merge needs the columns that tell rows apart: merge(on=['order_id'])")
    return Mode("merge", columns)


def mode_of(asked: str | Mode | None, *, partitioned: bool) -> Mode:
    """The mode that was asked for; by default a run replaces what it computes anew."""
    if isinstance(asked, Mode):
        return asked
    said: object = asked  # whatever its type promises
    if said is merge:
        asked = "merge"  # without its columns, however it was written
    match asked:
        case None:
            return Mode("replace_partition" if partitioned else "replace")
        case "replace" | "append":
            return Mode(asked)
        case "replace_partition":
            if not partitioned:
                complain("mode 'replace_partition' needs partitions: give them, or use 'replace'")
            return Mode(asked)
        case "merge":
            complain("mode 'merge' needs columns: write mode=merge(on=['order_id'])")
            return Mode(asked)
    complain(f"mode {asked!r} is none of {', '.join(get_args(ModeKind))}")
    return Mode("replace")


def on_missing_column_of(asked: str | None) -> OnMissingColumn:
    """What becomes of a column of the table that the result lacks."""
    match asked:
        case None:
            return "fail"
        case "fail" | "null" | "drop":
            return asked
    complain(f"on_missing_column {asked!r} is none of {', '.join(get_args(OnMissingColumn))}")
    return "fail"


def with_on_change(mode: Mode, asked: str | None, *, partitioned: bool) -> Mode:
    """The mode with what was asked for under `on_change`, where that can work."""
    if asked is None:
        return mode
    if asked not in get_args(OnChange):
        complain(f"on_change {asked!r} is none of {', '.join(get_args(OnChange))}")
    elif mode.kind != "append":
        complain(f"on_change is for mode 'append', and this mode is {mode.kind!r}: leave it out")
    elif asked == "replace" and not partitioned:
        complain(
            "on_change='replace' needs partitions, as it replaces the rows of one: give them, use "
            "mode='replace', or add the rows once more with `arco run --append-again`"
        )
    else:
        return replace(mode, on_change="replace" if asked == "replace" else "block")
    return mode


def format_of(asked: str, mode: Mode) -> Format:
    """The table format that was asked for, if it can be written in this mode."""
    match asked:
        case "iceberg":
            return asked
        case "parquet":
            if mode.kind == "merge":
                complain("parquet files cannot be merged into: use format 'iceberg'")
            return asked
    complain(f"format {asked!r} is none of {', '.join(get_args(Format))}")
    return "iceberg"
