"""Expressions: what the value of one was made from."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from arco.events.lineage import Transformation
from arco.flow.lineage.derived import Column, Columns, Derived, together
from arco.flow.lineage.text import SILENT, text_of
from arco.flow.lineage.tree import Node

NOTHING = Derived()

_CASTS = frozenset(("Cast", "AnsiCast", "TryCast", "UpCast"))
_CASES = frozenset(("CaseWhen", "If"))
_AGGREGATES = frozenset(("AggregateExpression", "PythonUDAF"))
_SUBQUERIES = frozenset(("ScalarSubquery", "Exists", "ListQuery", "LateralSubquery"))
_OUTER = frozenset(("OuterReference", "OuterScopeReference"))
_NO_COLUMN = frozenset(("Literal", "NamedLambdaVariable", "SpecifiedWindowFrame"))


@dataclass(frozen=True)
class Scope:
    """The columns that an expression may name: those of its operator's inputs, then those around it."""

    columns: Mapping[int, Column]
    outer: "Scope | None" = None

    def find(self, expr_id: int) -> Column | None:
        """The column of this id."""
        scope: Scope | None = self
        while scope is not None:
            if expr_id in scope.columns:
                return scope.columns[expr_id]
            scope = scope.outer
        return None


class Plans(Protocol):
    """What expressions need of the walk through the plan around them."""

    def subquery(self, plan: Node, scope: Scope) -> Columns:
        """The columns of a plan inside an expression."""

    def doubt(self, why: str) -> None:
        """Say that something was not understood."""


def column_of(plans: Plans, expression: Node, scope: Scope) -> Column:
    """The column that a named expression makes."""
    derived = value_of(plans, expression, scope)
    if expression.kind != "AttributeReference":
        plain = all(how == "DIRECT" for how in derived.sources.values())
        derived = derived.told_as(derived.sql if plain else text_of(expression))
    return Column(expression.number, expression.name, derived)


def value_of(plans: Plans, node: Node, scope: Scope) -> Derived:
    """What a value was made from."""
    kind = node.kind
    if kind == "AttributeReference":
        return _attribute(plans, node, scope)
    if kind in _NO_COLUMN:
        return NOTHING
    if kind in _OUTER:
        return together(value_of(plans, each, scope) for each in node.trees("e"))
    if kind in _SUBQUERIES:
        return _subquery(plans, node, scope)
    special = _SPECIAL.get(kind)
    if special is not None:
        return special(plans, node, scope)
    return _inputs(plans, node, scope).by("DIRECT" if _is_idle(node) else _step(kind))


def _is_idle(node: Node) -> bool:
    """Whether it casts a column to the type that it has, as some releases do at each write."""
    if node.kind not in _CASTS:
        return False
    (child,) = node.children
    same = child.fields.get("dataType") == node.fields.get("dataType")
    return same and child.kind == "AttributeReference"


def _step(kind: str) -> Transformation:
    if kind in SILENT and kind not in _AGGREGATES:
        return "DIRECT"
    if kind in _CASTS:
        return "CAST"
    if kind in _CASES:
        return "CASE"
    if kind in _AGGREGATES:
        return "AGGREGATE"
    return "WINDOW" if kind == "WindowExpression" else "EXPRESSION"


def _inputs(plans: Plans, node: Node, scope: Scope) -> Derived:
    return together(value_of(plans, child, scope) for child in node.children)


def _attribute(plans: Plans, node: Node, scope: Scope) -> Derived:
    found = None if node.expr_id is None else scope.find(node.expr_id)
    if found is None:
        plans.doubt(f"nothing is known of where the column {node.name} comes from")
        return NOTHING
    return found.derived


def _subquery(plans: Plans, node: Node, scope: Scope) -> Derived:
    """The value of a subquery is that of its columns; EXISTS has none but asks whether there are rows."""
    (plan,) = node.trees("plan")
    columns = plans.subquery(plan, scope)
    if node.kind == "Exists":
        return NOTHING
    return together(column.derived for column in columns)


def _struct(plans: Plans, node: Node, scope: Scope) -> Derived:
    """Children are a name and a value by turns."""
    fields = tuple(value_of(plans, child, scope) for child in node.children[1::2])
    return Derived(together(fields).by("EXPRESSION").sources, None, fields)


def _field(plans: Plans, node: Node, scope: Scope) -> Derived:
    """A field of a struct that was made here has its own origin; one of a stored struct, the column's."""
    (child,) = node.children
    struct = value_of(plans, child, scope)
    at = node.fields.get("ordinal")
    if struct.fields is not None and isinstance(at, int) and at < len(struct.fields):
        return struct.fields[at]
    return struct.by("EXPRESSION")


_SPECIAL: Mapping[str, Callable[[Plans, Node, Scope], Derived]] = {
    "CreateNamedStruct": _struct,
    "GetStructField": _field,
}
