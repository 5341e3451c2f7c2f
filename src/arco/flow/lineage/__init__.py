"""Lineage: which columns of what was read made which columns of what was written.

It promises that the same plan gives the same edges and the same fingerprint, that whatever it does not
understand is said (soundness, note) and never guessed, and that nothing it makes is larger than what an
event may hold. It never runs anything: plans come in as JSON, and what that JSON lacks as plain data, so
no Spark is imported here. It enters events and core.

**Influences.** A column in a filter, a join's condition, a grouping or a sort order decides which rows
there are, and so touches every column of the target. It is told as one edge from that column to the
target column `*`, which stands for all columns of the target table; an edge for each column would say
the same in a thousand times the room. In the event such an edge has a `target_table_id`, no
`target_column_id` and the `target_name` "*".

**Names.** In the event, an end whose table is known has the column's plain name. A source whose table
nobody knows is named `dataset.column`, so that the columns of two unknown tables are never one.
"""

from arco.flow.lineage.event import Resolved, to_event
from arco.flow.lineage.facts import Leaf, PlanFacts
from arco.flow.lineage.observation import EVERY_COLUMN, Dataset, Edge, Observation, ReadFact
from arco.flow.lineage.plan import PlanLineage, read_plan

__all__ = [
    "EVERY_COLUMN",
    "Dataset",
    "Edge",
    "Leaf",
    "Observation",
    "PlanFacts",
    "PlanLineage",
    "ReadFact",
    "Resolved",
    "read_plan",
    "to_event",
]
