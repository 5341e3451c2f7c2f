"""Who reads from whom in a project: assets, tasks and sources, joined by tables."""

from collections.abc import Iterable, Iterator
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
    """The nodes of a project by name, and for each the names of those that it reads from."""

    project: Project
    nodes: dict[str, Node] = field(init=False)
    reads: dict[str, tuple[str, ...]] = field(init=False)

    def __post_init__(self) -> None:
        nodes: dict[str, Node] = {each.name: each for each in self.project.sources}
        nodes.update({each.name: each for each in self.project.makers()})
        object.__setattr__(self, "nodes", dict(sorted(nodes.items())))
        reads = {name: tuple(sorted(set(self._above(node)))) for name, node in self.nodes.items()}
        object.__setattr__(self, "reads", reads)

    def _above(self, node: Node) -> Iterator[str]:
        if isinstance(node, SourceDef):
            return
        for each in node.inputs:
            maker = self.project.made_by.get(each.table)
            above = each.table if maker is None else maker.name
            if above != node.name and above in self.nodes:
                yield above

    @cached_property
    def read_by(self) -> dict[str, tuple[str, ...]]:
        """For each node the names of those that read from it."""
        found: dict[str, list[str]] = {name: [] for name in self.nodes}
        for name, above in self.reads.items():
            for each in above:
                found[each].append(name)
        return {name: tuple(names) for name, names in found.items()}

    def upstream(self, names: Iterable[str], levels: int | None) -> set[str]:
        """These nodes and all above them, at most so many levels up."""
        return _walk(names, self.reads, levels)

    def downstream(self, names: Iterable[str], levels: int | None) -> set[str]:
        """These nodes and all below them, at most so many levels down."""
        return _walk(names, self.read_by, levels)

    def in_order(self, names: Iterable[str]) -> list[MakerDef]:
        """The makers among these, each after those that it reads from; what is free comes by its name."""
        wanted = {name for name in names if not isinstance(self.nodes[name], SourceDef)}
        open_reads = {name: sum(each in wanted for each in self.reads[name]) for name in wanted}
        ready = [name for name, count in open_reads.items() if count == 0]
        heapify(ready)
        found: list[MakerDef] = []
        while ready:
            node = self.nodes[heappop(ready)]
            if not isinstance(node, SourceDef):
                found.append(node)
            for below in self.read_by[node.name]:
                if below in open_reads:
                    open_reads[below] -= 1
                    if open_reads[below] == 0:
                        heappush(ready, below)
        if len(found) < len(wanted):
            stuck = sorted(wanted - {node.name for node in found})
            raise Invalid(
                f"these wait for each other: {', '.join(stuck)}; `arco check` tells the whole ring"
            )
        return found


def _walk(start: Iterable[str], steps: dict[str, tuple[str, ...]], levels: int | None) -> set[str]:
    found = set(start)
    border = found
    while border and (levels is None or levels > 0):
        border = {each for name in border for each in steps[name]} - found
        found |= border
        levels = None if levels is None else levels - 1
    return found
