"""Lineage: which columns of the tables read became which columns of the table written.

It promises that the same plan gives the same edges and the same fingerprint, that it reports what it does
not understand (`soundness`, `note`) instead of guessing, and that nothing it makes is larger than an event
may hold. It never runs anything: plans come in as JSON, and what the JSON lacks as plain data, so Spark is
not imported here. It may import `events` and `core`.

**Influences.** A column in a filter, a join condition, a grouping or a sort order decides which rows exist,
and so affects every column of the target. That is one edge from the column to the target column `*`, which
stands for all columns of the target table. In the event such an edge has a `target_table_id`, no
`target_column_id` and the `target_name` "*".

**Names.** In the event, a column of a known table has its plain name. A source column of an unknown table
is named `dataset.column`, so that columns of two unknown tables are never confused.
"""

from arco.flow.lineage.event import ResolvedTable, to_event
from arco.flow.lineage.observation import (
    EVERY_COLUMN,
    Dataset,
    LineageObservation,
    ObservedEdge,
    ReadFact,
)
from arco.flow.lineage.plan import PlanLineage, read_plan
from arco.flow.lineage.plan_tree import Leaf, PlanFacts

__all__ = [
    "EVERY_COLUMN",
    "Dataset",
    "Leaf",
    "LineageObservation",
    "ObservedEdge",
    "PlanFacts",
    "PlanLineage",
    "ReadFact",
    "ResolvedTable",
    "read_plan",
    "to_event",
]
