"""Fingerprints of plans: the same code has the same fingerprint, for whichever day or partition it ran.

Ids that Spark assigns in each run are replaced by numbers in order of appearance. What differs from one
partition to the next is left out: Arco's own filter of partitions, the values in conditions that only
choose partitions of an input (their columns and comparisons stay), constants for the partition columns of
the target, literals that the caller names, and paths. Columns of a source that the query does not refer to
are left out too: a new column there does not change the transformation.
"""

import hashlib
from collections.abc import Mapping, Sequence

from arco.core import json
from arco.flow.lineage.plan_tree import (
    Node,
    PlanFacts,
    Raw,
    build_tree,
    flat_trees,
    id_in,
    is_partition_filter,
)

# These do not change what is computed.
_SKIPPED = frozenset(
    (
        *("SubqueryAlias", "View", "CollectMetrics", "ResolvedHint", "Repartition"),
        *("RepartitionByExpression", "RebalancePartitions", "PipeOperator"),
    )
)
_DROPPED = frozenset(
    (
        *(
            "class",
            "num-children",
            "jvmId",
            "qualifier",
            "metadata",
            "nullable",
            "hint",
            "resultId",
        ),
        *("nonInheritableMetadataKeys", "timeZoneId", "evalContext", "isStreaming", "identifier"),
        *("randomSeed", "seed", "origin", "relation", "catalogTable", "tableMeta", "options"),
        *("func", "dataframeId", "product-class", "planId", "stats", "originStats"),
    )
)
_NUMBERED = frozenset(("cteId", "loopId"))
_SEEDED = frozenset(("Rand", "Randn", "Uuid", "Shuffle", "RandStr", "Uniform"))
# Choosing one partition or several counts as the same comparison.
_EQUIVALENT = {"In": "EqualTo", "InSet": "EqualTo", "EqualNullSafe": "EqualTo", "Or": "", "And": ""}
_VARYING = frozenset(("AttributeReference", "OuterReference", "ScalarSubquery"))
_NEUTRAL = frozenset(("AttributeReference", "Literal", "Cast"))


def fingerprint_of(
    query: Node,
    partition_filters: Mapping[int, Sequence[str]],
    facts: PlanFacts,
    ignored_literals: frozenset[str] = frozenset(),
) -> str:
    """SHA-256 of a query's plan, without what differs from run to run."""
    plan = _NormalForm(partition_filters, facts, ignored_literals).plan(query)
    return hashlib.sha256(json.encode(plan)).hexdigest()


class _NormalForm:
    """A plan as plain lists, with ids numbered by order of appearance."""

    def __init__(
        self,
        partition_filters: Mapping[int, Sequence[str]],
        facts: PlanFacts,
        ignored_literals: frozenset[str],
    ) -> None:
        self._filters = partition_filters
        self._facts = facts
        self._ignored_literals = ignored_literals
        self._numbers: dict[object, int] = {}

    def plan(self, root: Node) -> list[object]:
        """Operators, parents first."""
        operators: list[object] = []
        waiting = [root]
        while waiting:
            node = waiting.pop()
            waiting.extend(reversed(node.children))
            if node.kind in _SKIPPED or is_partition_filter(node):
                continue
            leaf = self._leaf(node)
            operators.append([node.kind, len(node.children), leaf or self._fields(node.fields)])
        return operators

    def _leaf(self, node: Node) -> list[str] | None:
        outputs = node.trees("output") if not node.children else ()
        leaf = self._facts.leaves.get(outputs[0].number) if outputs else None
        return None if leaf is None else [each.name or "path" for each in leaf.datasets[:1]]

    def _fields(self, raw: Raw) -> dict[str, object]:
        return {
            name: self._value(name, value)
            for name, value in sorted(raw.items())
            if value is not None and name not in _DROPPED
        }

    def _value(self, name: str, value: object) -> object:
        trees = flat_trees(value)
        if trees and name == "plan":
            return self.plan(build_tree(trees[0]))
        if trees:
            return [self._expression(flat) for flat in trees]
        if isinstance(value, dict):
            number = id_in(value)
            return self._number(number) if number is not None else self._fields(value)
        if isinstance(value, list):
            return [self._value(name, each) for each in value]
        return self._number((name, value)) if name in _NUMBERED else value

    def _number(self, key: object) -> int:
        return self._numbers.setdefault(key, len(self._numbers))

    def _expression(self, flat: Sequence[Raw]) -> list[object]:
        nodes: list[object] = []
        at = 0
        while at < len(flat):
            placeholder = self._placeholder(flat, at)
            if placeholder is not None:
                nodes.append(placeholder)
                at = _end(flat, at)
            else:
                nodes.append(self._node(_kind(flat[at]), flat[at]))
                at += 1
        return nodes

    def _placeholder(self, flat: Sequence[Raw], at: int) -> list[object] | None:
        """What replaces an expression that differs from run to run, if the one at this index does."""
        raw, kind = flat[at], _kind(flat[at])
        columns = self._filters.get(id(raw))
        if columns is not None:
            return ["partitions", list(columns), _comparisons(flat[at : _end(flat, at)])]
        if kind in _SEEDED:
            return [kind]
        if kind == "Alias" and raw.get("name") in self._facts.target_partition_columns:
            inside = map(_kind, flat[at : _end(flat, at)])
            return None if _VARYING.intersection(inside) else ["partition", raw.get("name")]
        return None

    def _node(self, kind: str, raw: Raw) -> list[object]:
        if kind == "AttributeReference":
            number = id_in(raw.get("exprId"))
            return [kind, raw.get("name"), self._number(number)]
        if kind == "Literal" and str(raw.get("value")) in self._ignored_literals:
            return [kind, "?"]
        return [kind, raw["num-children"], self._fields(raw)]


def _kind(raw: Raw) -> str:
    return str(raw["class"]).rpartition(".")[2]


def _end(flat: Sequence[Raw], at: int) -> int:
    """The index behind the tree that begins at an index."""
    missing = 1
    while missing and at < len(flat):
        count = flat[at]["num-children"]
        missing += (count if isinstance(count, int) else 0) - 1
        at += 1
    return at


def _comparisons(inside: Sequence[Raw]) -> list[str]:
    kinds = {_EQUIVALENT.get(kind, kind) for kind in map(_kind, inside) if kind not in _NEUTRAL}
    return sorted(kinds - {""})
