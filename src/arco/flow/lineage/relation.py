"""Relations: the leaves of a plan, where columns begin."""

from arco.flow.lineage.derived import Column, Columns, Derived, Origin
from arco.flow.lineage.expression import NOTHING
from arco.flow.lineage.tree import Node
from arco.flow.lineage.walk import Walk

RELATIONS = frozenset(
    (
        *("LogicalRelation", "DataSourceV2Relation", "DataSourceV2ScanRelation"),
        *("HiveTableRelation", "StreamingRelationV2"),
    )
)
# Their values stand in the program itself.
_MADE_HERE = frozenset(("OneRowRelation", "LocalRelation", "Range", "CommandResult"))
# Rows that came out of Python or of an RDD: what went into them is not in the plan.
_CUT = frozenset(("LogicalRDD", "ExternalRDD"))


def relation(walk: Walk, node: Node) -> Columns:
    """The columns of a leaf."""
    outputs = node.trees("output")
    if node.kind in _MADE_HERE:
        walk.has_own_rows = walk.has_own_rows or node.kind == "LocalRelation"
        return _without_origin(outputs)
    if node.kind in _CUT:
        walk.weaken("declared", "some rows come out of an RDD or of Python objects")
        return _without_origin(outputs)
    leaf = walk.facts.leaves.get(outputs[0].number) if outputs else None
    if leaf is None:
        if outputs:
            walk.doubt(f"nothing is known of where a {node.kind} reads")
        return _without_origin(outputs)
    return tuple(
        Column(
            each.number,
            each.name,
            Derived(
                {Origin(leaf.datasets, each.name, each.name in leaf.partition_columns): "DIRECT"}
            ),
        )
        for each in outputs
    )


def _without_origin(outputs: tuple[Node, ...]) -> Columns:
    return tuple(Column(each.number, each.name, NOTHING) for each in outputs)
