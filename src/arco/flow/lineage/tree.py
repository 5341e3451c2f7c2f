"""Trees: Spark writes each tree as a flat list, parents first, each with its number of children."""

from collections.abc import Mapping, Sequence
from typing import Final

from arco.core import json
from arco.core.errors import Invalid

Raw = Mapping[str, object]


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
        """The same id as a key. Spark counts from 0 on; -1 is no column's."""
        found = self.expr_id
        return -1 if found is None else found

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
        return tuple(tree(flat) for flat in flat_trees(self.fields.get(field)))


def flat_trees(value: object) -> list[Sequence[Raw]]:
    """The flat lists in the value of a field."""
    if not isinstance(value, list) or not value:
        return []
    if _is_flat(value):
        return [value]
    return [each for each in value if isinstance(each, list) and _is_flat(each)]


def _is_flat(value: Sequence[object]) -> bool:
    return bool(value) and isinstance(value[0], dict) and "num-children" in value[0]


def tree(flat: Sequence[Raw]) -> Node:
    """The tree that a flat list stands for."""
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


def decode(text: str | bytes) -> Sequence[Raw]:
    """The flat list of a plan or an expression in JSON."""
    return json.decode(text.encode() if isinstance(text, str) else text, list[dict[str, object]])


def id_in(value: object) -> int | None:
    """The number in an id as Spark writes it."""
    found = value.get("id") if isinstance(value, dict) else None
    return found if isinstance(found, int) else None
