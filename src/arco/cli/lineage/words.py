"""What parts of lineage are called for people."""

from arco.cli.listing import one_line
from arco.query.lineage.response import LineageColumnEdge, LineageEdge, LineageNode, LineageRun

EVERY_COLUMN = "all columns"

HOW = {"value": "by its values", "influence": "by its influence", "table": "perhaps, as tables do"}


def node_text(node: LineageNode) -> str:
    """A table, and what is particular about it."""
    mark = " (dropped)" if node.dropped else _MARKS.get(node.kind, "")
    return one_line(node.name) + mark


def edge_text(edge: LineageEdge) -> str:
    """What is known of an edge between tables."""
    count = edge.column_edges
    parts = [", ".join(edge.soundness)] if edge.soundness else []
    if count:
        parts.append(f"{count:,} column edge" + ("" if count == 1 else "s"))
    if edge.last_observed_at is not None:
        parts.append(f"seen {edge.last_observed_at:%Y-%m-%dT%H:%M:%SZ}")
    return "; ".join(parts)


def column_text(edge: LineageColumnEdge) -> str:
    """An edge between columns."""
    source, target = edge.source_column or EVERY_COLUMN, edge.target_column or EVERY_COLUMN
    return one_line(f"{source} -> {target}  {edge.transformation}")


def run_text(run: LineageRun) -> str:
    """A run that has shown an edge."""
    seen = "" if run.observed_at is None else f"  {run.observed_at:%Y-%m-%dT%H:%M:%SZ}"
    task = f" task {run.task_id}" if run.task_id else ""
    return one_line(f"run {run.execution_id or 'unknown'}{task}{seen}")


_MARKS = {"EXTERNAL": " (external)", "UNKNOWN": " (not in the catalog)", "VIEW": " (view)"}
