"""The cut: Arco's own choice of the partitions of an input, which is no doing of the code that reads it.

The condition that makes it carries a mark, a text that is never null. Spark keeps the mark in the plans
that are read here, and folds it away before it plans what to scan.
"""

from arco.flow.lineage.tree import Node

CUT = "arco: the partitions of the input"


def is_cut(node: Node) -> bool:
    """Whether an operator is Arco's choice of partitions."""
    if node.kind != "Filter":
        return False
    waiting = list(node.trees("condition"))
    while waiting:
        part = waiting.pop()
        if _is_mark(part):
            return True
        if part.kind == "And":
            waiting.extend(part.children)
    return False


def _is_mark(part: Node) -> bool:
    return part.kind == "IsNotNull" and part.children[0].fields.get("value") == CUT
