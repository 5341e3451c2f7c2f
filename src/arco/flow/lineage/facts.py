"""Facts: what the JSON of a plan leaves out and only the plan itself can tell."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from arco.flow.lineage.observation import Dataset


@dataclass(frozen=True)
class Leaf:
    """Where a relation of the plan reads from.

    A relation over several paths has several datasets; their columns are the same.
    """

    datasets: tuple[Dataset, ...]
    partition_columns: frozenset[str] = frozenset()


@dataclass(frozen=True)
class PlanFacts:
    """What is known besides the JSON.

    Relations and expansions have no name of their own: each goes by the id of its first output column.
    An expansion is told as the JSON of each of its projections, as one array expression.
    """

    leaves: Mapping[int, Leaf] = field(default_factory=dict)
    expansions: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    target: Dataset | None = None
    target_partition_columns: frozenset[str] = frozenset()
