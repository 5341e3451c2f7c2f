"""Who reads from whom in a project, and who waits for whom: assets, tasks and sources, joined by tables."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from heapq import heapify, heappop, heappush

from arco.core.errors import Invalid
from arco.flow.define.asset import AssetDef
from arco.flow.define.project import Project
from arco.flow.define.source import SourceDef
from arco.flow.define.task import TaskDef

MakerDef = AssetDef | TaskDef
Node = AssetDef | TaskDef | SourceDef


@dataclass(frozen=True)
class Graph:
    """The nodes of a project by name, and for each the names of those that it reads from.

    `waits` has besides those that only its checks look into: they come first, and change nothing in it.
    """

    project: Project
    nodes: dict[str, Node] = field(init=False)
    reads: dict[str, tuple[str, ...]] = field(init=False)
    waits: dict[str, tuple[str, ...]] = field(init=False)

    def __post_init__(self) -> None:
        nodes: dict[str, Node] = {each.name: each for each in self.project.sources}
        nodes.update({each.name: each for each in self.project.makers()})
        object.__setattr__(self, "nodes", dict(sorted(nodes.items())))
        makers = {each.name: each for each in self.project.makers()}
        reads = {name: self._above(name, _read(makers.get(name))) for name in self.nodes}
        checked = {name: self.project.compared_with(each) for name, each in makers.items()}
        waits = {
            name: self._above(name, checked.get(name, ()), above) for name, above in reads.items()
        }
        object.__setattr__(self, "reads", reads)
        object.__setattr__(self, "waits", waits)

    def _above(
        self, node: str, tables: Iterable[str], besides: Iterable[str] = ()
    ) -> tuple[str, ...]:
        """The nodes that fill some tables, in the order of their names, and some more."""
        makers = self.project.made_by
        filling = {makers[each].name if each in makers else each for each in tables}
        return tuple(sorted({*besides, *(filling & self.nodes.keys() - {node})}))

    @cached_property
    def read_by(self) -> dict[str, tuple[str, ...]]:
        """For each node the names of those that read from it."""
        return _inverse(self.reads)

    def upstream(self, names: Iterable[str], levels: int | None) -> set[str]:
        """These nodes and all that has to be there before them, at most so many levels up."""
        return _walk(names, self.waits, levels)

    def downstream(self, names: Iterable[str], levels: int | None) -> set[str]:
        """These nodes and all below them, at most so many levels down."""
        return _walk(names, self.read_by, levels)

    def in_order(self, names: Iterable[str]) -> list[MakerDef]:
        """The makers among these, each after those that it waits for; what is free comes by its name."""
        wanted = {name for name in names if not isinstance(self.nodes[name], SourceDef)}
        open_waits = {name: sum(each in wanted for each in self.waits[name]) for name in wanted}
        waited_for = _inverse(self.waits)
        ready = [name for name, count in open_waits.items() if count == 0]
        heapify(ready)
        found: list[MakerDef] = []
        while ready:
            node = self.nodes[heappop(ready)]
            if not isinstance(node, SourceDef):
                found.append(node)
            for below in waited_for[node.name]:
                if below in open_waits:
                    open_waits[below] -= 1
                    if open_waits[below] == 0:
                        heappush(ready, below)
        if len(found) < len(wanted):
            stuck = sorted(wanted - {node.name for node in found})
            raise Invalid(
                f"these wait for each other: {', '.join(stuck)}; `arco validate` tells the whole ring"
            )
        return found


def _read(node: MakerDef | None) -> list[str]:
    """The tables that a node reads; sources read none."""
    return [] if node is None else [each.table for each in node.inputs]


def _inverse(steps: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {name: [] for name in steps}
    for name, above in steps.items():
        for each in above:
            found[each].append(name)
    return {name: tuple(names) for name, names in found.items()}


def _walk(start: Iterable[str], steps: dict[str, tuple[str, ...]], levels: int | None) -> set[str]:
    found = set(start)
    border = found
    while border and (levels is None or levels > 0):
        border = {each for name in border for each in steps[name]} - found
        found |= border
        levels = None if levels is None else levels - 1
    return found
