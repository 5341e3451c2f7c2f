"""Generators: explode and its like, which make several rows out of one."""

from arco.flow.lineage.derived import Column, Columns, Derived, together
from arco.flow.lineage.expression import Scope, value_of
from arco.flow.lineage.text import text_of
from arco.flow.lineage.tree import Node
from arco.flow.lineage.walk import Walk


def generate(walk: Walk, node: Node, inputs: tuple[Columns, ...]) -> Columns:
    """The columns of the input that stay, then those that the generator makes."""
    (generator,) = node.trees("generator")
    outputs = node.trees("generatorOutput")
    made = _made(walk, generator, walk.scope(*inputs), len(outputs))
    text = text_of(generator)
    unneeded = node.fields.get("unrequiredChildIndex")
    gone = set(unneeded) if isinstance(unneeded, list) else set()
    stay = tuple(column for at, column in enumerate(inputs[0]) if at not in gone)
    return stay + tuple(
        Column(each.number, each.name, value.told_as(text))
        for each, value in zip(outputs, made, strict=True)
    )


def _made(walk: Walk, generator: Node, scope: Scope, count: int) -> list[Derived]:
    """What each of `count` outputs was made from."""
    if generator.kind.startswith("PythonUDTF"):
        walk.weaken("opaque", "a table function of Python runs over its rows")
        return [value_of(walk, generator, scope).by("UNKNOWN")] * count
    rows = _stacked(walk, generator, scope, count)
    if rows and all(len(row) == count for row in rows):
        return [together(alike).by("EXPRESSION") for alike in zip(*rows, strict=True)]
    return [value_of(walk, generator, scope).by("EXPRESSION")] * count


def _stacked(walk: Walk, node: Node, scope: Scope, count: int) -> list[list[Derived]]:
    """The rows that `stack` and `inline` write out one by one; none if they are not written out."""
    if node.kind == "Stack":
        values = walk.values(node.children[1:], scope)
        short = -len(values) % count  # what is missing at the end is null
        values += [Derived()] * short
        return [values[at : at + count] for at in range(0, len(values), count)]
    if node.kind == "Inline" and node.children[0].kind == "CreateArray":
        structs = walk.values(node.children[0].children, scope)
        return [list(struct.fields or ()) for struct in structs]
    return []
