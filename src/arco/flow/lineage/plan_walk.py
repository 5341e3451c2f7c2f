"""Derives the columns of each operator of a plan from the columns of its inputs, leaves first.

Column ids are not unique in a plan (both sides of a union may carry the same id), so each operator sees
only the columns of its own inputs. The walk is a loop: plans are deeper than Python's stack.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from arco.core.errors import Unavailable
from arco.events.lineage_payload import Soundness, Transformation
from arco.flow.lineage.column_origins import (
    Derivation,
    PlanColumn,
    PlanColumns,
    SourceColumn,
    combine,
)
from arco.flow.lineage.expression_text import TRANSPARENT, text_of
from arco.flow.lineage.observation import weakest
from arco.flow.lineage.plan_tree import Node, PlanFacts, Raw

NO_SOURCES = Derivation()

_MAX_NOTES = 5
_CASTS = frozenset(("Cast", "AnsiCast", "TryCast", "UpCast"))
_CASES = frozenset(("CaseWhen", "If"))
_AGGREGATES = frozenset(("AggregateExpression", "PythonUDAF"))
_SUBQUERIES = frozenset(("ScalarSubquery", "Exists", "ListQuery", "LateralSubquery"))
_OUTER = frozenset(("OuterReference", "OuterScopeReference"))
_WITHOUT_COLUMNS = frozenset(("Literal", "NamedLambdaVariable", "SpecifiedWindowFrame"))


@dataclass(frozen=True)
class ColumnScope:
    """The columns that an expression may name: those of its operator's inputs, then those around it."""

    columns: Mapping[int, PlanColumn]
    outer: "ColumnScope | None" = None

    def find(self, expr_id: int) -> PlanColumn | None:
        """The column with this id."""
        scope: ColumnScope | None = self
        while scope is not None:
            if expr_id in scope.columns:
                return scope.columns[expr_id]
            scope = scope.outer
        return None


Operators = Callable[["PlanWalk", Node, tuple[PlanColumns, ...]], PlanColumns]


class PlanWalk:
    """One walk through one plan, and what it has noted on the way."""

    def __init__(
        self,
        facts: PlanFacts,
        operators: Operators,
        lazy: frozenset[str],
        is_out_of_time: Callable[[], bool],
    ) -> None:
        """`lazy` are the kinds of operators that ask for the columns of their inputs themselves."""
        self.facts = facts
        self.influences: dict[tuple[SourceColumn, Transformation], None] = {}
        self.soundness: Soundness = "exact"
        self.notes: dict[str, None] = {}
        self.has_literal_rows = False  # some rows stand in the plan itself
        self.partition_filters: dict[int, list[str]] = {}  # by the identity of the raw expression
        self.shared: dict[int, PlanColumns] = {}  # of a CTE or a loop, by its number
        self._operators = operators
        self._lazy = lazy
        self._is_out_of_time = is_out_of_time
        self._outer: ColumnScope | None = None

    def columns(self, plan: Node) -> PlanColumns:
        """The output columns of a plan."""
        ready: list[PlanColumns] = []
        waiting: list[tuple[Node, bool]] = [(plan, False)]
        while waiting:
            if self._is_out_of_time():
                raise Unavailable("the time for reading the plan is used up")
            node, has_inputs = waiting.pop()
            if has_inputs or not node.children or node.kind in self._lazy:
                count = len(node.children) if has_inputs else 0
                inputs = tuple(ready[len(ready) - count :])
                del ready[len(ready) - count :]
                ready.append(self._operators(self, node, inputs))
            else:
                waiting.append((node, True))
                waiting.extend((child, False) for child in reversed(node.children))
        return ready[0]

    def scope(self, *inputs: PlanColumns) -> ColumnScope:
        """What an expression over these inputs may name."""
        by_id = {column.id: column for columns in inputs for column in columns}
        return ColumnScope(by_id, self._outer)

    def subquery(self, plan: Node, scope: ColumnScope) -> PlanColumns:
        """The columns of a plan inside an expression, which may name the columns around it."""
        outer, self._outer = self._outer, scope
        try:
            return self.columns(plan)
        finally:
            self._outer = outer

    def named(self, expressions: Iterable[Node], scope: ColumnScope) -> PlanColumns:
        """The columns that named expressions make."""
        return tuple(self._named_column(each, scope) for each in expressions)

    def values(self, expressions: Iterable[Node], scope: ColumnScope) -> list[Derivation]:
        """How the values of expressions are computed."""
        return [self.value(each, scope) for each in expressions]

    def add_influence(self, values: Iterable[Derivation], kind: Transformation) -> None:
        """Note that these values decide which rows exist, or in which order."""
        for value in values:
            for source in value.sources:
                self.influences.setdefault((source, kind))

    def add_partition_filter(self, condition: Raw, columns: list[str]) -> None:
        """Note that a condition only chooses partitions."""
        self.partition_filters[id(condition)] = columns

    def weaken(self, soundness: Soundness, reason: str) -> None:
        """Lower the soundness of the result to at most this, and note why."""
        self.soundness = weakest(self.soundness, soundness)
        if len(self.notes) < _MAX_NOTES:
            self.notes.setdefault(reason)

    def note_unsupported(self, reason: str) -> None:
        """Note that a part of the plan is not understood."""
        self.weaken("unsupported", reason)

    def value(self, node: Node, scope: ColumnScope) -> Derivation:
        """How the value of one expression is computed."""
        kind = node.kind
        if kind in _WITHOUT_COLUMNS:
            return NO_SOURCES
        if kind in _OUTER:
            return combine(self.values(node.trees("e"), scope))
        if kind in _SUBQUERIES:
            return self._subquery_value(node, scope)
        if (rule := _VALUE_RULES.get(kind)) is not None:
            return rule(self, node, scope)
        step = "DIRECT" if _is_idle_cast(node) else _step_of(kind)
        return combine(self.values(node.children, scope)).after(step)

    def _named_column(self, expression: Node, scope: ColumnScope) -> PlanColumn:
        derivation = self.value(expression, scope)
        if expression.kind != "AttributeReference":
            is_copy = all(step == "DIRECT" for step in derivation.sources.values())
            derivation = derivation.with_sql(derivation.sql if is_copy else text_of(expression))
        return PlanColumn(expression.number, expression.name, derivation)

    def _attribute(self, node: Node, scope: ColumnScope) -> Derivation:
        column = None if node.expr_id is None else scope.find(node.expr_id)
        if column is None:
            self.note_unsupported(f"the source of the column {node.name} is not known")
            return NO_SOURCES
        return column.derivation

    def _subquery_value(self, node: Node, scope: ColumnScope) -> Derivation:
        """A subquery has the value of its columns; EXISTS only asks whether there are rows."""
        (plan,) = node.trees("plan")
        columns = self.subquery(plan, scope)
        if node.kind == "Exists":
            return NO_SOURCES
        return combine(column.derivation for column in columns)

    def _struct(self, node: Node, scope: ColumnScope) -> Derivation:
        """The children are a name and a value by turns."""
        fields = tuple(self.values(node.children[1::2], scope))
        return Derivation(combine(fields).after("EXPRESSION").sources, None, fields)

    def _struct_field(self, node: Node, scope: ColumnScope) -> Derivation:
        """A field of a struct built in the plan has sources of its own; else it has the column's."""
        (child,) = node.children
        struct = self.value(child, scope)
        at = node.fields.get("ordinal")
        if struct.fields is not None and isinstance(at, int) and at < len(struct.fields):
            return struct.fields[at]
        return struct.after("EXPRESSION")


def _is_idle_cast(node: Node) -> bool:
    """Whether it casts a column to the type that it has, as some Spark releases do at each write."""
    if node.kind not in _CASTS:
        return False
    (child,) = node.children
    is_same_type = child.fields.get("dataType") == node.fields.get("dataType")
    return is_same_type and child.kind == "AttributeReference"


def _step_of(kind: str) -> Transformation:
    if kind in TRANSPARENT and kind not in _AGGREGATES:
        return "DIRECT"
    if kind in _CASTS:
        return "CAST"
    if kind in _CASES:
        return "CASE"
    if kind in _AGGREGATES:
        return "AGGREGATE"
    return "WINDOW" if kind == "WindowExpression" else "EXPRESSION"


_VALUE_RULES: Mapping[str, Callable[[PlanWalk, Node, ColumnScope], Derivation]] = {
    "AttributeReference": PlanWalk._attribute,  # noqa: SLF001
    "CreateNamedStruct": PlanWalk._struct,  # noqa: SLF001
    "GetStructField": PlanWalk._struct_field,  # noqa: SLF001
}
