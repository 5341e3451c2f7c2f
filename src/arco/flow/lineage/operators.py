"""Operators: what columns each gives, by those of its inputs.

A kind that is not known here is never guessed at: if it lists its outputs, each depends on all inputs;
else its inputs pass through; either way the doubt is noted.
"""

from collections.abc import Callable, Mapping

from arco.events.lineage import Transformation
from arco.flow.lineage.cut import is_cut
from arco.flow.lineage.derived import Columns
from arco.flow.lineage.expression import Scope, value_of
from arco.flow.lineage.generate import generate
from arco.flow.lineage.opaque import MADE_BY_CODE, made_by_code, made_of_all
from arco.flow.lineage.relation import RELATIONS, relation
from arco.flow.lineage.rows import expand, loop, merge_rows, shared, union, use_shared
from arco.flow.lineage.tree import Node
from arco.flow.lineage.walk import Walk

LAZY = frozenset(("UnionLoop",))

# These change neither columns nor, by what they say of columns, rows.
_PASSING = frozenset(
    (
        *("SubqueryAlias", "View", "GlobalLimit", "LocalLimit", "Limit", "Offset", "Tail"),
        *("Sample", "Repartition", "RepartitionByExpression", "RebalancePartitions"),
        *("ResolvedHint", "CollectMetrics", "EventTimeWatermark", "ReturnAnswer"),
        *("PipeOperator",),
    )
)
_LEFT_ONLY = ("LeftSemi", "LeftAnti")
# A condition on these alone chooses partitions, unless it looks at groups of rows.
_OF_ONE_ROW = frozenset(("DIRECT", "CAST", "EXPRESSION", "CASE"))

Inputs = tuple[Columns, ...]


def columns_of(walk: Walk, node: Node, inputs: Inputs) -> Columns:
    """The columns that an operator gives."""
    known = _OPERATORS.get(node.kind)
    if known is not None:
        return known(walk, node, inputs)
    if node.kind in _PASSING:
        return inputs[-1]
    if node.kind in MADE_BY_CODE:
        return made_by_code(walk, node, inputs)
    if node.kind in RELATIONS or not node.children:
        return relation(walk, node)
    walk.doubt(f"the operator {node.kind} is not known")
    if node.trees("output"):
        return made_of_all(node, inputs)
    return tuple(column for columns in inputs for column in columns)


def _project(walk: Walk, node: Node, inputs: Inputs) -> Columns:
    return walk.named(node.trees("projectList"), walk.scope(*inputs))


def _filter(walk: Walk, node: Node, inputs: Inputs) -> Columns:
    if not is_cut(node):
        _condition(walk, node, walk.scope(*inputs), "FILTER")
    return inputs[0]


def _condition(walk: Walk, node: Node, scope: Scope, how: Transformation) -> None:
    """Each part of a condition influences the rows; one that only chooses partitions is remembered."""
    waiting = list(node.trees("condition"))
    while waiting:
        part = waiting.pop()
        if part.kind == "And":
            waiting.extend(reversed(part.children))
            continue
        derived = value_of(walk, part, scope)
        walk.influence([derived], how)
        sources = derived.sources
        if sources and all(
            origin.is_partition and step in _OF_ONE_ROW for origin, step in sources.items()
        ):
            walk.filters_partitions(part.fields, sorted({origin.column for origin in sources}))


def _join(walk: Walk, node: Node, inputs: Inputs) -> Columns:
    _condition(walk, node, walk.scope(*inputs), "JOIN")
    left, right = inputs
    return left if _join_type(node).startswith(_LEFT_ONLY) else left + right


def _join_type(node: Node) -> str:
    told = node.fields.get("joinType")
    name = (told.get("object") or told.get("product-class")) if isinstance(told, dict) else told
    return str(name).rpartition(".")[2]


def _as_of_join(walk: Walk, node: Node, inputs: Inputs) -> Columns:
    scope = walk.scope(*inputs)
    walk.influence(walk.values(node.trees("asOfCondition"), scope), "JOIN")
    walk.influence(walk.values(node.trees("orderExpression"), scope), "SORT")
    return _join(walk, node, inputs)


def _lateral_join(walk: Walk, node: Node, inputs: Inputs) -> Columns:
    """The right side stands in an expression, and may name columns of the left."""
    (left,) = inputs
    (subquery,) = node.trees("right")
    (plan,) = subquery.trees("plan")
    right = walk.subquery(plan, walk.scope(left))
    return _join(walk, node, (left, right))


def _aggregate(walk: Walk, node: Node, inputs: Inputs) -> Columns:
    scope = walk.scope(*inputs)
    walk.influence(walk.values(node.trees("groupingExpressions"), scope), "GROUP_BY")
    return walk.named(node.trees("aggregateExpressions"), scope)


def _window(walk: Walk, node: Node, inputs: Inputs) -> Columns:
    return inputs[0] + walk.named(node.trees("windowExpressions"), walk.scope(*inputs))


def _sort(walk: Walk, node: Node, inputs: Inputs) -> Columns:
    walk.influence(walk.values(node.trees("order"), walk.scope(*inputs)), "SORT")
    return inputs[0]


def _distinct(walk: Walk, _node: Node, inputs: Inputs) -> Columns:
    """To keep each row once is to group by all columns."""
    walk.influence((column.derived for column in inputs[0]), "GROUP_BY")
    return inputs[0]


def _deduplicate(walk: Walk, node: Node, inputs: Inputs) -> Columns:
    walk.influence(walk.values(node.trees("keys"), walk.scope(*inputs)), "GROUP_BY")
    return inputs[0]


def _compared(walk: Walk, _node: Node, inputs: Inputs) -> Columns:
    """Rows of the left stay if the right has them, or if it has not: all columns are compared."""
    for columns in inputs:
        walk.influence((column.derived for column in columns), "FILTER")
    left, right = inputs
    if len(left) != len(right):
        walk.doubt("the two sides of an INTERSECT or EXCEPT differ in their columns")
    return left


def _with_shared(_walk: Walk, node: Node, inputs: Inputs) -> Columns:
    """The definitions come first, and have been noted on the way."""
    at = node.fields.get("plan")
    return inputs[at if isinstance(at, int) else -1]


_OPERATORS: Mapping[str, Callable[[Walk, Node, Inputs], Columns]] = {
    "Aggregate": _aggregate,
    "AsOfJoin": _as_of_join,
    "CTERelationDef": shared,
    "CTERelationRef": use_shared,
    "Deduplicate": _deduplicate,
    "DeduplicateWithinWatermark": _deduplicate,
    "Distinct": _distinct,
    "Except": _compared,
    "Expand": expand,
    "Filter": _filter,
    "Generate": generate,
    "Intersect": _compared,
    "Join": _join,
    "LateralJoin": _lateral_join,
    "MergeRows": merge_rows,
    "Project": _project,
    "Sort": _sort,
    "Union": union,
    "UnionLoop": loop,
    "UnionLoopRef": use_shared,
    "Window": _window,
    "WithCTE": _with_shared,
}
