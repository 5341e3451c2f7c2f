"""Text: an expression as a person would write it, near to SQL and short.

It is for reading. Names of functions are those of Spark's classes, so not every text can be run.
"""

import re

from arco.flow.lineage.tree import Node

LONGEST = 500

_DEEPEST = 12
_CUT = "..."
_SIGNS = {
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
# These stand around the expression that was written, and say nothing of their own.
SILENT = frozenset(
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
    """The text of an expression, at most `LONGEST` characters of it."""
    found = _text(expression, _DEEPEST)
    return found if len(found) <= LONGEST else found[: LONGEST - len(_CUT)] + _CUT


def _text(node: Node, deep: int) -> str:
    kind, children = node.kind, node.children
    if deep == 0:
        return _CUT
    if kind in SILENT and children:
        return _text(children[0], deep)
    if kind == "AttributeReference":
        return node.name
    if kind == "Literal":
        return _literal(node)
    parts = [_text(child, deep - 1) for child in children]
    if kind in _SIGNS and len(parts) == 2:
        return f"({parts[0]} {_SIGNS[kind]} {parts[1]})"
    return _special(node, parts) or f"{_function(node)}({', '.join(parts)})"


def _special(node: Node, parts: list[str]) -> str | None:
    """What is not written as a function is."""
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
    pairs, last = divmod(len(parts), 2)
    arms = [f"WHEN {parts[2 * at]} THEN {parts[2 * at + 1]}" for at in range(pairs)]
    return " ".join(["CASE", *arms, *([f"ELSE {parts[-1]}"] if last else []), "END"])


def _literal(node: Node) -> str:
    value = node.fields.get("value")
    if value is None:
        return "NULL"
    quoted = str(value).replace("'", "''")
    return f"'{quoted}'" if node.fields.get("dataType") in _QUOTED else str(value)


def _function(node: Node) -> str:
    told = node.fields.get("name")
    if isinstance(told, str) and told and node.kind.startswith("Python"):
        return told
    return _NAMES.get(node.kind) or _WORD.sub("_", node.kind).lower()
