"""Which output columns each operator of a plan has, given the columns of its inputs.

An operator that is not known here is never guessed at: if it lists its outputs, each depends on all inputs;
otherwise its inputs pass through. Either way the lineage is marked as unsupported.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from arco.events.lineage_payload import Transformation
from arco.flow.lineage.column_origins import (
    Derivation,
    PlanColumn,
    PlanColumns,
    SourceColumn,
    combine,
)
from arco.flow.lineage.expression_text import text_of
from arco.flow.lineage.plan_tree import Node, build_tree, decode_plan, id_in, is_partition_filter
from arco.flow.lineage.plan_walk import NO_SOURCES, ColumnScope, PlanWalk

LAZY = frozenset(("UnionLoop",))

# These change neither the columns nor, by any column, the rows.
_PASSING = frozenset(
    (
        *("SubqueryAlias", "View", "GlobalLimit", "LocalLimit", "Limit", "Offset", "Tail"),
        *("Sample", "Repartition", "RepartitionByExpression", "RebalancePartitions"),
        *("ResolvedHint", "CollectMetrics", "EventTimeWatermark", "ReturnAnswer"),
        *("PipeOperator",),
    )
)
# These run a function over whole frames; what it does with their columns is not known.
_OPAQUE = frozenset(
    (
        *("MapInPandas", "MapInArrow", "PythonMapInArrow"),
        *("FlatMapGroupsInPandas", "FlatMapGroupsInArrow"),
        *("FlatMapCoGroupsInPandas", "FlatMapCoGroupsInArrow"),
        *("ScriptTransformation", "ScriptInputOutputSchema"),
        *("FlatMapGroupsInPandasWithState", "TransformWithStateInPandas"),
        *("MapPartitions", "MapElements", "MapGroups", "CoGroup", "AppendColumns"),
        *("SerializeFromObject", "DeserializeToObject", "TypedFilter"),
    )
)
_RELATIONS = frozenset(
    (
        *("LogicalRelation", "DataSourceV2Relation", "DataSourceV2ScanRelation"),
        *("HiveTableRelation", "StreamingRelationV2"),
    )
)
# Their values stand in the plan itself.
_LITERAL_ROWS = frozenset(("OneRowRelation", "LocalRelation", "Range", "CommandResult"))
# Rows that came from Python or an RDD: how they were computed is not in the plan.
_FROM_PROGRAM = frozenset(("LogicalRDD", "ExternalRDD"))
_LEFT_ONLY = ("LeftSemi", "LeftAnti")
# A condition on partition columns chooses partitions, unless it looks at groups of rows.
_OF_ONE_ROW = frozenset(("DIRECT", "CAST", "EXPRESSION", "CASE"))

Inputs = tuple[PlanColumns, ...]


def columns_of(walk: PlanWalk, node: Node, inputs: Inputs) -> PlanColumns:
    """The output columns of an operator."""
    operator = _OPERATORS.get(node.kind)
    if operator is not None:
        return operator(walk, node, inputs)
    if node.kind in _PASSING:
        return inputs[-1]
    if node.kind in _OPAQUE:
        return _opaque(walk, node, inputs)
    if node.kind in _RELATIONS or not node.children:
        return _relation(walk, node)
    walk.note_unsupported(f"the operator {node.kind} is not known")
    if node.trees("output"):
        return _from_all_inputs(node, inputs)
    return tuple(column for columns in inputs for column in columns)


def _relation(walk: PlanWalk, node: Node) -> PlanColumns:
    """The columns of a leaf, where lineage begins."""
    outputs = node.trees("output")
    if node.kind in _LITERAL_ROWS:
        walk.has_literal_rows = walk.has_literal_rows or node.kind == "LocalRelation"
        return _all_from(NO_SOURCES, outputs)
    if node.kind in _FROM_PROGRAM:
        walk.weaken("declared", "some rows come out of an RDD or of Python objects")
        return _all_from(NO_SOURCES, outputs)
    leaf = walk.facts.leaves.get(outputs[0].number) if outputs else None
    if leaf is None:
        if outputs:
            walk.note_unsupported(f"the dataset that a {node.kind} reads is not known")
        return _all_from(NO_SOURCES, outputs)
    sources = [
        SourceColumn(leaf.datasets, each.name, each.name in leaf.partition_columns)
        for each in outputs
    ]
    return _columns(outputs, (Derivation({source: "DIRECT"}) for source in sources))


def _opaque(walk: PlanWalk, node: Node, inputs: Inputs) -> PlanColumns:
    walk.weaken("opaque", f"{node.kind} runs a function over whole frames")
    scope = walk.scope(*inputs)
    walk.add_influence(walk.values(node.trees("groupingAttributes"), scope), "GROUP_BY")
    for field, columns in zip(("leftGroupingLen", "rightGroupingLen"), inputs, strict=False):
        count = node.fields.get(field)
        if isinstance(count, int):
            walk.add_influence((column.derivation for column in columns[:count]), "GROUP_BY")
    return _from_all_inputs(node, inputs)


def _from_all_inputs(node: Node, inputs: Inputs) -> PlanColumns:
    """The outputs of an operator, each computed from all inputs in a way that is not known."""
    all_inputs = combine(column.derivation for columns in inputs for column in columns)
    fields = ("output", "outputObjAttr", "serializer", "newColumnsSerializer")
    outputs = next(filter(None, map(node.trees, fields)), ())
    return _all_from(all_inputs.after("UNKNOWN"), outputs)


def _project(walk: PlanWalk, node: Node, inputs: Inputs) -> PlanColumns:
    return walk.named(node.trees("projectList"), walk.scope(*inputs))


def _filter(walk: PlanWalk, node: Node, inputs: Inputs) -> PlanColumns:
    if not is_partition_filter(node):
        _condition(walk, node, walk.scope(*inputs), "FILTER")
    return inputs[0]


def _condition(walk: PlanWalk, node: Node, scope: ColumnScope, kind: Transformation) -> None:
    """Each part of a condition influences the rows; one that only chooses partitions is noted."""
    waiting = list(node.trees("condition"))
    while waiting:
        part = waiting.pop()
        if part.kind == "And":
            waiting.extend(reversed(part.children))
            continue
        value = walk.value(part, scope)
        walk.add_influence([value], kind)
        sources = value.sources
        if sources and all(
            source.is_partition and step in _OF_ONE_ROW for source, step in sources.items()
        ):
            walk.add_partition_filter(part.fields, sorted({source.column for source in sources}))


def _join(walk: PlanWalk, node: Node, inputs: Inputs) -> PlanColumns:
    _condition(walk, node, walk.scope(*inputs), "JOIN")
    left, right = inputs
    return left if _join_type(node).startswith(_LEFT_ONLY) else left + right


def _join_type(node: Node) -> str:
    raw = node.fields.get("joinType")
    name = (raw.get("object") or raw.get("product-class")) if isinstance(raw, dict) else raw
    return str(name).rpartition(".")[2]


def _as_of_join(walk: PlanWalk, node: Node, inputs: Inputs) -> PlanColumns:
    scope = walk.scope(*inputs)
    walk.add_influence(walk.values(node.trees("asOfCondition"), scope), "JOIN")
    walk.add_influence(walk.values(node.trees("orderExpression"), scope), "SORT")
    return _join(walk, node, inputs)


def _lateral_join(walk: PlanWalk, node: Node, inputs: Inputs) -> PlanColumns:
    """The right side stands in an expression, and may name columns of the left."""
    (left,) = inputs
    (subquery,) = node.trees("right")
    (plan,) = subquery.trees("plan")
    right = walk.subquery(plan, walk.scope(left))
    return _join(walk, node, (left, right))


def _aggregate(walk: PlanWalk, node: Node, inputs: Inputs) -> PlanColumns:
    scope = walk.scope(*inputs)
    walk.add_influence(walk.values(node.trees("groupingExpressions"), scope), "GROUP_BY")
    return walk.named(node.trees("aggregateExpressions"), scope)


def _window(walk: PlanWalk, node: Node, inputs: Inputs) -> PlanColumns:
    return inputs[0] + walk.named(node.trees("windowExpressions"), walk.scope(*inputs))


def _sort(walk: PlanWalk, node: Node, inputs: Inputs) -> PlanColumns:
    walk.add_influence(walk.values(node.trees("order"), walk.scope(*inputs)), "SORT")
    return inputs[0]


def _distinct(walk: PlanWalk, _node: Node, inputs: Inputs) -> PlanColumns:
    """DISTINCT groups by all columns."""
    walk.add_influence((column.derivation for column in inputs[0]), "GROUP_BY")
    return inputs[0]


def _deduplicate(walk: PlanWalk, node: Node, inputs: Inputs) -> PlanColumns:
    walk.add_influence(walk.values(node.trees("keys"), walk.scope(*inputs)), "GROUP_BY")
    return inputs[0]


def _intersect_or_except(walk: PlanWalk, _node: Node, inputs: Inputs) -> PlanColumns:
    """Whether a row of the left stays depends on all columns of both sides."""
    for columns in inputs:
        walk.add_influence((column.derivation for column in columns), "FILTER")
    left, right = inputs
    if len(left) != len(right):
        walk.note_unsupported("the two sides of an INTERSECT or EXCEPT differ in their columns")
    return left


def _union(walk: PlanWalk, _node: Node, inputs: Inputs) -> PlanColumns:
    """Columns are matched by position; the first input names them."""
    if len({len(columns) for columns in inputs}) != 1:
        walk.note_unsupported("the inputs of a UNION differ in their columns")
    return _combine_by_position(inputs[0], inputs)


def _combine_by_position(named: PlanColumns, inputs: Inputs) -> PlanColumns:
    return tuple(
        PlanColumn(column.id, column.name, combine(each.derivation for each in same_position))
        for column, same_position in zip(named, zip(*inputs, strict=False), strict=False)
    )


def _cte_definition(walk: PlanWalk, node: Node, inputs: Inputs) -> PlanColumns:
    walk.shared[_number(node, "id")] = inputs[0]
    return inputs[0]


def _cte_reference(walk: PlanWalk, node: Node, _inputs: Inputs) -> PlanColumns:
    """A reference has column ids of its own, and the columns of the query that it refers to."""
    outputs = node.trees("output")
    shared = walk.shared.get(_number(node, "cteId", "loopId"))
    if shared is None or len(shared) < len(outputs):
        walk.note_unsupported("a shared query is referred to before it is defined")
        return _all_from(NO_SOURCES, outputs)
    return _columns(outputs, (column.derivation for column in shared[: len(outputs)]))


def _with_cte(_walk: PlanWalk, node: Node, inputs: Inputs) -> PlanColumns:
    """The definitions come first, and are noted by now."""
    at = node.fields.get("plan")
    return inputs[at if isinstance(at, int) else -1]


def _loop(walk: PlanWalk, node: Node, _inputs: Inputs) -> PlanColumns:
    """A recursive query: its own rows feed it, until no column has a new source."""
    anchor, step = node.children
    number = _number(node, "id")
    columns = walk.columns(anchor)
    for _ in range(len(columns) + 1):
        walk.shared[number] = columns
        wider = _combine_by_position(columns, (columns, walk.columns(step)))
        if [each.derivation.sources for each in wider] == [
            each.derivation.sources for each in columns
        ]:
            break
        columns = wider
    ids = node.fields.get("outputAttrIds")
    numbers = [id_in(each) for each in ids] if isinstance(ids, list) else []
    if len(numbers) != len(columns):
        return columns
    return tuple(
        PlanColumn(-1 if number is None else number, column.name, column.derivation)
        for number, column in zip(numbers, columns, strict=True)
    )


def _expand(walk: PlanWalk, node: Node, inputs: Inputs) -> PlanColumns:
    """Each input row goes through all projections (cube, rollup, unpivot)."""
    outputs = node.trees("output")
    projections = walk.facts.expansions.get(outputs[0].number) if outputs else None
    if projections is None:
        walk.note_unsupported("the projections of an expansion are not known")
        return _from_all_inputs(node, inputs[:1])
    scope = walk.scope(*inputs)
    rows = [walk.values(build_tree(decode_plan(each)).children, scope) for each in projections]
    return _columns(outputs, map(combine, zip(*rows, strict=True)))


def _merge_rows(walk: PlanWalk, node: Node, inputs: Inputs) -> PlanColumns:
    """MERGE: each instruction says, under its condition, what becomes of a row."""
    scope = walk.scope(*inputs)
    rows: list[list[Derivation]] = []
    for field in ("matched", "notMatched", "notMatchedBySource"):
        for instruction in node.trees(f"{field}Instructions"):
            condition = instruction.child("condition")
            if condition is not None:
                walk.add_influence(walk.values([condition], scope), "FILTER")
            for output in ("output", "otherOutput"):
                positions = instruction.fields.get(output)
                if isinstance(positions, list) and positions:
                    row = [instruction.children[at] for at in positions]
                    rows.append(walk.values(row, scope))
    outputs = node.trees("output")
    if not rows:  # all matched rows are deleted
        return _all_from(NO_SOURCES, outputs)
    return _columns(outputs, map(combine, zip(*rows, strict=True)))


def _generate(walk: PlanWalk, node: Node, inputs: Inputs) -> PlanColumns:
    """For explode and its like: the columns of the input that stay, then those of the generator."""
    (generator,) = node.trees("generator")
    outputs = node.trees("generatorOutput")
    values = _generated(walk, generator, walk.scope(*inputs), len(outputs))
    sql = text_of(generator)
    unneeded = node.fields.get("unrequiredChildIndex")
    dropped = set(unneeded) if isinstance(unneeded, list) else set()
    input_columns = tuple(column for at, column in enumerate(inputs[0]) if at not in dropped)
    return input_columns + _columns(outputs, (value.with_sql(sql) for value in values))


def _generated(walk: PlanWalk, generator: Node, scope: ColumnScope, count: int) -> list[Derivation]:
    """How each of the `count` outputs of a generator is computed."""
    if generator.kind.startswith("PythonUDTF"):
        walk.weaken("opaque", "a Python table function runs over its rows")
        return [walk.value(generator, scope).after("UNKNOWN")] * count
    rows = _literal_rows(walk, generator, scope, count)
    if rows and all(len(row) == count for row in rows):
        return [combine(column).after("EXPRESSION") for column in zip(*rows, strict=True)]
    return [walk.value(generator, scope).after("EXPRESSION")] * count


def _literal_rows(
    walk: PlanWalk, node: Node, scope: ColumnScope, count: int
) -> list[list[Derivation]]:
    """The rows that `stack` and `inline` spell out one by one; none if they do not."""
    if node.kind == "Stack":
        values = walk.values(node.children[1:], scope)
        values += [NO_SOURCES] * (-len(values) % count)  # missing values at the end are null
        return [values[at : at + count] for at in range(0, len(values), count)]
    if node.kind == "Inline" and node.children[0].kind == "CreateArray":
        structs = walk.values(node.children[0].children, scope)
        return [list(struct.fields or ()) for struct in structs]
    return []


def _columns(outputs: Sequence[Node], derivations: Iterable[Derivation]) -> PlanColumns:
    return tuple(
        PlanColumn(each.number, each.name, derivation)
        for each, derivation in zip(outputs, derivations, strict=True)
    )


def _all_from(derivation: Derivation, outputs: Sequence[Node]) -> PlanColumns:
    return _columns(outputs, [derivation] * len(outputs))


def _number(node: Node, *fields: str) -> int:
    number = next((node.fields[field] for field in fields if field in node.fields), None)
    return number if isinstance(number, int) else -1


_OPERATORS: Mapping[str, Callable[[PlanWalk, Node, Inputs], PlanColumns]] = {
    "Aggregate": _aggregate,
    "AsOfJoin": _as_of_join,
    "CTERelationDef": _cte_definition,
    "CTERelationRef": _cte_reference,
    "Deduplicate": _deduplicate,
    "DeduplicateWithinWatermark": _deduplicate,
    "Distinct": _distinct,
    "Except": _intersect_or_except,
    "Expand": _expand,
    "Filter": _filter,
    "Generate": _generate,
    "Intersect": _intersect_or_except,
    "Join": _join,
    "LateralJoin": _lateral_join,
    "MergeRows": _merge_rows,
    "Project": _project,
    "Sort": _sort,
    "Union": _union,
    "UnionLoop": _loop,
    "UnionLoopRef": _cte_reference,
    "Window": _window,
    "WithCTE": _with_cte,
}
