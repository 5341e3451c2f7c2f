"""An expression as short text close to SQL, for people to read.

Function names are derived from Spark's class names, so not every text can be run.
"""

import re

from arco.flow.lineage.plan_tree import Node

_MAX_CHARS = 500
_MAX_DEPTH = 12
_ELLIPSIS = "..."
_OPERATOR_SIGNS = {
    "Add": "+",
    "Subtract": "-",
    "Multiply": "*",
    "Divide": "/",
    "Remainder": "%",
    "EqualTo": "=",
    "EqualNullSafe": "<=>",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "And": "AND",
    "Or": "OR",
}
# Spark wraps these around an expression; they do not change its meaning.
TRANSPARENT = frozenset(
    (
        *("Alias", "AggregateExpression", "AssertNotNull", "CheckOverflowInTableInsert"),
        *("KnownNotNull", "KnownNullable", "KnownFloatingPointNormalized"),
        *("NormalizeNaNAndZero", "PromotePrecision", "TempResolvedColumn", "ToPrettyString"),
    )
)
_QUOTED = frozenset(("string", "date", "timestamp", "timestamp_ntz"))
_NAMES = {"StringSplit": "split", "CreateNamedStruct": "struct", "WindowExpression": "over"}
_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def text_of(expression: Node) -> str:
    """The text of an expression, shortened where it is too long or too deep."""
    text = _text(expression, _MAX_DEPTH)
    return text if len(text) <= _MAX_CHARS else text[: _MAX_CHARS - len(_ELLIPSIS)] + _ELLIPSIS


def _text(node: Node, depth: int) -> str:
    kind, children = node.kind, node.children
    if depth == 0:
        return _ELLIPSIS
    if kind in TRANSPARENT and children:
        return _text(children[0], depth)
    if kind == "AttributeReference":
        return node.name
    if kind == "Literal":
        return _literal(node)
    parts = [_text(child, depth - 1) for child in children]
    if kind in _OPERATOR_SIGNS and len(parts) == 2:
        return f"({parts[0]} {_OPERATOR_SIGNS[kind]} {parts[1]})"
    return _special(node, parts) or f"{_function(node)}({', '.join(parts)})"


def _special(node: Node, parts: list[str]) -> str | None:
    """An expression that is not written as a function call."""
    if node.kind in ("Cast", "UpCast") and parts:
        return f"CAST({parts[0]} AS {node.fields.get('dataType')})"
    if node.kind == "CaseWhen":
        return _case(parts)
    if node.kind == "GetStructField" and parts:
        return f"{parts[0]}.{node.fields.get('name') or node.fields.get('ordinal')}"
    if node.kind in ("NamedLambdaVariable", "UnresolvedNamedLambdaVariable"):
        return node.name
    return None


def _case(parts: list[str]) -> str:
    pairs, has_else = divmod(len(parts), 2)
    arms = [f"WHEN {parts[2 * at]} THEN {parts[2 * at + 1]}" for at in range(pairs)]
    return " ".join(["CASE", *arms, *([f"ELSE {parts[-1]}"] if has_else else []), "END"])


def _literal(node: Node) -> str:
    value = node.fields.get("value")
    if value is None:
        return "NULL"
    quoted = str(value).replace("'", "''")
    return f"'{quoted}'" if node.fields.get("dataType") in _QUOTED else str(value)


def _function(node: Node) -> str:
    name = node.fields.get("name")
    if isinstance(name, str) and name and node.kind.startswith("Python"):
        return name
    return _NAMES.get(node.kind) or _WORD.sub("_", node.kind).lower()
