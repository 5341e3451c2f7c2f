"""A plan as it comes in: Spark's JSON as a tree, and the facts that the JSON leaves out.

Spark writes each tree as a flat list, parents first, each node with its number of children.

Arco itself filters the partitions of an input, which is not part of the code that reads the input. That
filter carries a marker, a text literal that is never null. Spark keeps it in the plans that are read here,
and removes it before it plans the scan.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from arco.core import json
from arco.core.errors import Invalid
from arco.flow.lineage.observation import Dataset

# Fingerprints do not depend on it: operators that carry it are left out of them.
PARTITION_FILTER_MARKER = "arco: the partitions of the input"

Raw = Mapping[str, object]


@dataclass(frozen=True)
class Leaf:
    """What a relation of the plan reads; one over several paths has several datasets."""

    datasets: tuple[Dataset, ...]
    partition_columns: frozenset[str] = frozenset()


@dataclass(frozen=True)
class PlanFacts:
    """What is known of a plan besides its JSON.

    Relations and expansions have no name: each goes by the id of its first output column. An expansion is
    the JSON of each of its projections, as one array expression.
    """

    leaves: Mapping[int, Leaf] = field(default_factory=dict)
    expansions: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    target: Dataset | None = None
    target_partition_columns: frozenset[str] = frozenset()


class Node:
    """An operator or an expression: its class without the package, its fields, its children."""

    __slots__ = ("children", "fields", "kind")

    def __init__(self, raw: Raw, children: "tuple[Node, ...]") -> None:
        self.kind: Final = str(raw["class"]).rpartition(".")[2]
        self.fields: Final = raw
        self.children: Final = children

    @property
    def expr_id(self) -> int | None:
        """The id of the column that it is or makes."""
        return id_in(self.fields.get("exprId"))

    @property
    def number(self) -> int:
        """The same id as a key. Spark counts from 0; -1 stands for no column."""
        expr_id = self.expr_id
        return -1 if expr_id is None else expr_id

    @property
    def name(self) -> str:
        """The name of the column that it is or makes."""
        return str(self.fields.get("name", ""))

    def child(self, field: str) -> "Node | None":
        """The child that a field points at."""
        at = self.fields.get(field)
        return self.children[at] if isinstance(at, int) and at < len(self.children) else None

    def trees(self, field: str) -> "tuple[Node, ...]":
        """The trees in a field that holds one of them, several, or none."""
        return tuple(build_tree(flat) for flat in flat_trees(self.fields.get(field)))


def decode_plan(text: str | bytes) -> Sequence[Raw]:
    """The flat list of a plan or an expression in JSON."""
    return json.decode(text.encode() if isinstance(text, str) else text, list[dict[str, object]])


def build_tree(flat: Sequence[Raw]) -> Node:
    """The tree that a flat list stands for; `Invalid` if it is not exactly one."""
    ready: list[Node] = []
    for raw in reversed(flat):
        count = raw["num-children"]
        if not isinstance(count, int) or count > len(ready):
            raise Invalid("a plan is cut off: a child is missing")
        children = tuple(ready.pop() for _ in range(count))
        ready.append(Node(raw, children))
    if len(ready) != 1:
        raise Invalid(f"a plan has one root, this one has {len(ready)}")
    return ready[0]


def flat_trees(value: object) -> list[Sequence[Raw]]:
    """The flat lists in the value of a field."""
    if not isinstance(value, list) or not value:
        return []
    if _is_flat_tree(value):
        return [value]
    return [each for each in value if isinstance(each, list) and _is_flat_tree(each)]


def id_in(value: object) -> int | None:
    """The number in an id as Spark writes it."""
    number = value.get("id") if isinstance(value, dict) else None
    return number if isinstance(number, int) else None


def is_partition_filter(node: Node) -> bool:
    """Whether an operator is Arco's own filter of the partitions of an input."""
    if node.kind != "Filter":
        return False
    waiting = list(node.trees("condition"))
    while waiting:
        part = waiting.pop()
        if part.kind == "IsNotNull":
            if part.children[0].fields.get("value") == PARTITION_FILTER_MARKER:
                return True
        elif part.kind == "And":
            waiting.extend(part.children)
    return False


def _is_flat_tree(value: Sequence[object]) -> bool:
    return bool(value) and isinstance(value[0], dict) and "num-children" in value[0]
