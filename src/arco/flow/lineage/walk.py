"""The walk: from the leaves of a plan up, the columns of each operator by those below it.

Ids of columns are not unique in a plan (both sides of a union may carry the same), so each operator sees
the columns of its own inputs and no others. The walk goes in a loop: plans are deeper than Python's stack.
"""

from collections.abc import Callable, Iterable

from arco.core.errors import Unavailable
from arco.events.lineage import Soundness, Transformation
from arco.flow.lineage.derived import Columns, Derived, Origin
from arco.flow.lineage.expression import Scope, column_of, value_of
from arco.flow.lineage.facts import PlanFacts
from arco.flow.lineage.observation import weakest
from arco.flow.lineage.tree import Node, Raw

_MOST_DOUBTS = 5

Operators = Callable[["Walk", Node, tuple[Columns, ...]], Columns]


class Walk:
    """One walk through one plan, and what it has noticed on the way."""

    def __init__(
        self,
        facts: PlanFacts,
        operators: Operators,
        lazy: frozenset[str],
        spent: Callable[[], bool],
    ) -> None:
        """`lazy` are the kinds of operators that ask for the columns of their inputs themselves."""
        self.facts = facts
        self.influences: dict[tuple[Origin, Transformation], None] = {}
        self.soundness: Soundness = "exact"
        self.doubts: dict[str, None] = {}
        self.has_own_rows = False  # some are written out in the program, or were brought by it
        self.partition_filters: dict[int, list[str]] = {}  # by the identity of the raw expression
        self.shared: dict[int, Columns] = {}  # of a CTE or a loop, by its number
        self._operators = operators
        self._lazy = lazy
        self._spent = spent
        self._outer: Scope | None = None

    def columns(self, plan: Node) -> Columns:
        """The columns that a plan gives."""
        ready: list[Columns] = []
        waiting: list[tuple[Node, bool]] = [(plan, False)]
        while waiting:
            if self._spent():
                raise Unavailable("its time is up")
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

    def scope(self, *inputs: Columns) -> Scope:
        """What an expression over these inputs may name."""
        found = {column.id: column for columns in inputs for column in columns}
        return Scope(found, self._outer)

    def subquery(self, plan: Node, scope: Scope) -> Columns:
        """The columns of a plan inside an expression, which may name the columns around it."""
        outer, self._outer = self._outer, scope
        try:
            return self.columns(plan)
        finally:
            self._outer = outer

    def named(self, expressions: Iterable[Node], scope: Scope) -> Columns:
        """The columns that named expressions make."""
        return tuple(column_of(self, each, scope) for each in expressions)

    def values(self, expressions: Iterable[Node], scope: Scope) -> list[Derived]:
        """What expressions were made from."""
        return [value_of(self, each, scope) for each in expressions]

    def influence(self, values: Iterable[Derived], how: Transformation) -> None:
        """Note that these decide which rows there are, or in which order."""
        for value in values:
            for origin in value.sources:
                self.influences.setdefault((origin, how))

    def filters_partitions(self, condition: Raw, columns: list[str]) -> None:
        """Note that a condition does nothing but choose partitions."""
        self.partition_filters[id(condition)] = columns

    def weaken(self, mark: Soundness, why: str) -> None:
        """Say that the result is no better than this, and why."""
        self.soundness = weakest(self.soundness, mark)
        if len(self.doubts) < _MOST_DOUBTS:
            self.doubts.setdefault(why)

    def doubt(self, why: str) -> None:
        """Say that something was not understood."""
        self.weaken("unsupported", why)
