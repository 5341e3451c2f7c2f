"""Rows from several places: unions, shared queries, loops, expansions and merges."""

from arco.flow.lineage.derived import Column, Columns, Derived, together
from arco.flow.lineage.tree import Node, decode, tree
from arco.flow.lineage.walk import Walk

Inputs = tuple[Columns, ...]


def union(walk: Walk, _node: Node, inputs: Inputs) -> Columns:
    """Columns by their position; the first input says what they are called."""
    if len({len(columns) for columns in inputs}) != 1:
        walk.doubt("the inputs of a UNION differ in their columns")
    return _over(inputs[0], inputs)


def _over(first: Columns, inputs: Inputs) -> Columns:
    each = zip(*inputs, strict=False)
    return tuple(
        Column(named.id, named.name, together(column.derived for column in alike))
        for named, alike in zip(first, each, strict=False)
    )


def shared(walk: Walk, node: Node, inputs: Inputs) -> Columns:
    """A query that others refer to by its number."""
    walk.shared[_number(node, "id")] = inputs[0]
    return inputs[0]


def use_shared(walk: Walk, node: Node, _inputs: Inputs) -> Columns:
    """A reference has column ids of its own, and the columns of what it refers to."""
    outputs = node.trees("output")
    found = walk.shared.get(_number(node, "cteId", "loopId"))
    if found is None or len(found) < len(outputs):
        walk.doubt("a shared query is referred to before it is known")
        return tuple(Column(each.number, each.name, Derived()) for each in outputs)
    return tuple(
        Column(each.number, each.name, column.derived)
        for each, column in zip(outputs, found, strict=False)
    )


def loop(walk: Walk, node: Node, _inputs: Inputs) -> Columns:
    """A recursive query: its own rows feed it again, until no column finds a new origin."""
    anchor, step = node.children
    number = _number(node, "id")
    found = walk.columns(anchor)
    for _ in range(len(found) + 1):
        walk.shared[number] = found
        wider = _over(found, (found, walk.columns(step)))
        if [column.derived.sources for column in wider] == [
            column.derived.sources for column in found
        ]:
            break
        found = wider
    ids = node.fields.get("outputAttrIds")
    numbers = [_id(each) for each in ids] if isinstance(ids, list) else []
    if len(numbers) != len(found):
        return found
    return tuple(
        Column(number, column.name, column.derived)
        for number, column in zip(numbers, found, strict=True)
    )


def expand(walk: Walk, node: Node, inputs: Inputs) -> Columns:
    """Each input row goes through all projections (cube, rollup, unpivot)."""
    outputs = node.trees("output")
    told = walk.facts.expansions.get(outputs[0].number) if outputs else None
    if told is None:
        walk.doubt("the projections of an expansion are not known")
        derived = together(column.derived for column in inputs[0]).by("UNKNOWN")
        return tuple(Column(each.number, each.name, derived) for each in outputs)
    scope = walk.scope(*inputs)
    rows = [walk.values(tree(decode(projection)).children, scope) for projection in told]
    return tuple(
        Column(each.number, each.name, together(alike))
        for each, alike in zip(outputs, zip(*rows, strict=True), strict=True)
    )


def merge_rows(walk: Walk, node: Node, inputs: Inputs) -> Columns:
    """MERGE: each instruction says, under its condition, what becomes of a row."""
    scope = walk.scope(*inputs)
    rows: list[list[Derived]] = []
    for field in ("matched", "notMatched", "notMatchedBySource"):
        for instruction in node.trees(f"{field}Instructions"):
            condition = instruction.child("condition")
            if condition is not None:
                walk.influence(walk.values([condition], scope), "FILTER")
            for output in ("output", "otherOutput"):
                row = _children(instruction, output)
                if row:
                    rows.append(walk.values(row, scope))
    outputs = node.trees("output")
    if not rows:  # all that matches is deleted
        rows = [[Derived()] * len(outputs)]
    return tuple(
        Column(each.number, each.name, together(alike))
        for each, alike in zip(outputs, zip(*rows, strict=True), strict=True)
    )


def _children(node: Node, field: str) -> list[Node]:
    at = node.fields.get(field)
    return [node.children[each] for each in at] if isinstance(at, list) else []


def _number(node: Node, *fields: str) -> int:
    found = next((node.fields[field] for field in fields if field in node.fields), None)
    return found if isinstance(found, int) else -1


def _id(value: object) -> int:
    found = value.get("id") if isinstance(value, dict) else None
    return found if isinstance(found, int) else -1
