"""Which edges the data of today no longer show.

Whoever writes a partition replaces what was there, and with it what an earlier run has shown of it. So an
edge is hidden once every partition of its target was last written by a run that recorded lineage for that
target and did not show the edge. Where any of this is not known, nothing is hidden:

- a partition whose writer is not recorded, or whose writer recorded no lineage for the target;
- a run that read the source and could not tell all columns: it says nothing against edges between columns;
- an edge that was seen after all that the writers have shown: the partitions may be told of later. But one
  of a run that is known to have failed at the target is hidden like any other.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from arco.events.lineage import WHOLE
from arco.query.lineage.codes import Mask, mask
from arco.query.lineage.sides import between_tables

# What is read of partitions and of observations.
PARTITION_COLUMNS = (
    *("table_id", "status", "last_execution_id", "last_successful_run"),
    "last_successful_execution_id",
)
OBSERVATION_COLUMNS = ("target_table_id", "edge_id", "execution_id", "observed_at", "soundness")

_COMPLETE, _FAILED = "COMPLETE", "FAILED"
_BETWEEN = "\n"  # the parts of a key; ids have none


@dataclass(frozen=True)
class Writers:
    """The runs that wrote the partitions of tables, of those alone whose writers are all known."""

    tables: pa.Array  # of each writer, the table that it wrote
    keys: pa.Array  # of each writer, the key of table and execution
    failed: pa.Array  # the same keys of runs that failed at a partition


def writers_of(partitions: pa.Table) -> Writers:
    """The writers of all partitions, which have the columns of `PARTITION_COLUMNS`."""
    rows = partitions.combine_chunks()
    tables, run = rows.column("table_id"), rows.column("last_execution_id")
    is_complete = pc.equal(rows.column("status"), _COMPLETE).fill_null(fill_value=False)
    is_written = pc.or_(is_complete, pc.is_valid(rows.column("last_successful_run")))
    # What was stored before writers were has only the last run, which is the writer if it is complete.
    last = pc.if_else(is_complete, run, pa.scalar(None, run.type))
    writer = pc.coalesce(rows.column("last_successful_execution_id"), last)
    unknown = pc.unique(tables.filter(pc.and_(is_written, pc.is_null(writer))))
    known = pc.and_(is_written, pc.invert(pc.is_in(tables, value_set=unknown)))
    pairs = pa.table({"table": tables.filter(known), "run": writer.filter(known)})
    pairs = pairs.group_by(["table", "run"]).aggregate([]).combine_chunks()
    has_failed = pc.equal(rows.column("status"), _FAILED).fill_null(fill_value=False)
    return Writers(
        tables=_array(pairs.column("table")),
        keys=_keys(pairs.column("table"), pairs.column("run")),
        failed=_keys(tables.filter(has_failed), run.filter(has_failed)),
    )


def not_last_seen(edges: pa.Table, writers: Writers) -> Mask:
    """The edges that may have to be hidden: no writer was the last to show them."""
    targets, runs = edges.column("target_table_id"), edges.column("execution_id")
    is_known = pc.and_(pc.is_in(targets, value_set=writers.tables), pc.is_valid(runs))
    by_writer = pc.is_in(_keys(targets, runs), value_set=writers.keys)
    return mask(_array(pc.and_(is_known, pc.invert(by_writer))))


def hidden_edges(edges: pa.Table, doubtful: Mask, writers: Writers, seen: pa.Table) -> Mask:
    """Which of the doubtful edges are hidden.

    `seen` has all observations of edges into their targets, with the columns of `OBSERVATION_COLUMNS`.
    """
    seen = _of_writers(seen, writers)
    rows = edges.filter(pa.array(doubtful)).combine_chunks()
    targets = rows.column("target_table_id")
    stays = [
        pc.is_in(targets, value_set=_without_lineage(seen, writers)),
        pc.is_in(_edge_keys(rows), value_set=_edge_keys(seen)),
        _is_newer(rows, seen, writers),
        _in_doubt(rows, edges, seen),
    ]
    hidden = np.zeros(edges.num_rows, np.bool_)
    hidden[np.flatnonzero(doubtful)] = ~np.logical_or.reduce([mask(_array(each)) for each in stays])
    return hidden


def _of_writers(seen: pa.Table, writers: Writers) -> pa.Table:
    keys = _keys(seen.column("target_table_id"), seen.column("execution_id"))
    return seen.filter(pc.is_in(keys, value_set=writers.keys)).combine_chunks()


def _without_lineage(seen: pa.Table, writers: Writers) -> pa.Array:
    """The tables that have a writer which recorded no lineage for them."""
    recorded = _keys(seen.column("target_table_id"), seen.column("execution_id"))
    return pc.unique(writers.tables.filter(pc.invert(pc.is_in(writers.keys, value_set=recorded))))


def _is_newer(rows: pa.Table, seen: pa.Table, writers: Writers) -> pa.Array:
    """The edges that were seen after all that the writers of their targets have shown."""
    newest = seen.group_by("target_table_id").aggregate([("observed_at", "max")])
    at = pc.index_in(rows.column("target_table_id"), value_set=_array(newest.column(0)))
    shown = newest.column("observed_at_max").take(at)
    is_newer = pc.greater(rows.column("last_observed_at"), shown).fill_null(fill_value=False)
    keys = _keys(rows.column("target_table_id"), rows.column("execution_id"))
    return pc.and_(is_newer, pc.invert(pc.is_in(keys, value_set=writers.failed)))


def _in_doubt(rows: pa.Table, edges: pa.Table, seen: pa.Table) -> pa.Array:
    """The edges between columns of which some writer read the source, and not all columns are known."""
    is_whole = pc.is_in(seen.column("soundness"), value_set=pa.array(WHOLE))
    partly = _edge_keys(seen.filter(pc.invert(is_whole)))
    read = edges.filter(pc.is_in(_edge_keys(edges), value_set=partly))
    is_read = pc.is_in(_table_keys(rows), value_set=_table_keys(read))
    return pc.and_(_array(is_read), pa.array(~between_tables(rows)))


def _edge_keys(rows: pa.Table) -> pa.Array:
    return _keys(rows.column("target_table_id"), rows.column("edge_id"))


def _table_keys(rows: pa.Table) -> pa.Array:
    """Both tables; sources without an id count as one."""
    return _keys(rows.column("target_table_id"), rows.column("source_table_id"))


def _keys(first: pa.ChunkedArray, second: pa.ChunkedArray) -> pa.Array:
    parts = (each.cast(pa.string()).fill_null("") for each in (first, second))
    return _array(pc.binary_join_element_wise(*parts, _BETWEEN))


def _array(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
