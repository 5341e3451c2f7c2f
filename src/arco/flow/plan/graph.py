"""The graph of a project's assets, tasks and sources, and selections of its nodes.

    gold.spend_7d            this one; `gold.*` all of the schema
    +gold.spend_7d           and everything upstream; `2+gold.spend_7d` two levels up
    raw.orders+              and everything downstream; `raw.orders+1` one level down
    tag:daily owner:ana      by tag or owner, with `+` as well
    a, b   or   a b          one or the other

An empty selection means everything.
"""

import difflib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from heapq import heapify, heappop, heappush

from arco.core.errors import Invalid
from arco.flow.define.asset import AssetDef, TaskDef
from arco.flow.define.inputs import SourceDef
from arco.flow.define.project import Project
from arco.flow.plan.keys import short_name

MakerDef = AssetDef | TaskDef
Node = AssetDef | TaskDef | SourceDef


@dataclass(frozen=True)
class AssetGraph:
    """The nodes of a project by name, and for each the names of the nodes that it reads from.

    `waits` adds the nodes that only its checks read: they run first, but do not make it stale.
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
        reads = {name: self._upstream_nodes(name, _read(makers.get(name))) for name in self.nodes}
        checked = {name: self.project.compared_with(each) for name, each in makers.items()}
        waits = {
            name: self._upstream_nodes(name, checked.get(name, ()), tables)
            for name, tables in reads.items()
        }
        object.__setattr__(self, "reads", reads)
        object.__setattr__(self, "waits", waits)

    def _upstream_nodes(
        self, node: str, tables: Iterable[str], besides: Iterable[str] = ()
    ) -> tuple[str, ...]:
        """The other nodes that fill these tables, and those in `besides`, sorted by name."""
        makers = self.project.made_by
        filling = {makers[each].name if each in makers else each for each in tables}
        return tuple(sorted({*besides, *(filling & self.nodes.keys() - {node})}))

    @cached_property
    def read_by(self) -> dict[str, tuple[str, ...]]:
        """For each node the names of the nodes that read from it."""
        return _inverse(self.reads)

    def upstream(self, names: Iterable[str], levels: int | None) -> set[str]:
        """These nodes and all that they wait for, at most `levels` up."""
        return _walk(names, self.waits, levels)

    def downstream(self, names: Iterable[str], levels: int | None) -> set[str]:
        """These nodes and all that read from them, at most `levels` down."""
        return _walk(names, self.read_by, levels)

    def in_order(self, names: Iterable[str]) -> list[MakerDef]:
        """The makers among these in topological order, by name where the order is free."""
        wanted = {name for name in names if not isinstance(self.nodes[name], SourceDef)}
        open_waits = {name: sum(each in wanted for each in self.waits[name]) for name in wanted}
        waited_for = _inverse(self.waits)
        ready = [name for name, count in open_waits.items() if count == 0]
        heapify(ready)
        ordered: list[MakerDef] = []
        while ready:
            node = self.nodes[heappop(ready)]
            if not isinstance(node, SourceDef):
                ordered.append(node)
            for below in waited_for[node.name]:
                if below in open_waits:
                    open_waits[below] -= 1
                    if open_waits[below] == 0:
                        heappush(ready, below)
        if len(ordered) < len(wanted):
            stuck = sorted(wanted - {node.name for node in ordered})
            raise Invalid(
                f"these wait for each other: {', '.join(stuck)}; `arco validate` shows the cycle"
            )
        return ordered


def _read(node: MakerDef | None) -> list[str]:
    """The tables that a maker reads; sources read none."""
    return [] if node is None else [each.table for each in node.inputs]


def _inverse(steps: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    inverse: dict[str, list[str]] = {name: [] for name in steps}
    for name, targets in steps.items():
        for each in targets:
            inverse[each].append(name)
    return {name: tuple(names) for name, names in inverse.items()}


def _walk(start: Iterable[str], steps: dict[str, tuple[str, ...]], levels: int | None) -> set[str]:
    visited = set(start)
    border = visited
    while border and (levels is None or levels > 0):
        border = {each for name in border for each in steps[name]} - visited
        visited |= border
        levels = None if levels is None else levels - 1
    return visited


_TERM = re.compile(r"(?:(?P<up>[0-9]*)\+)?(?P<what>[^+]*)(?:\+(?P<down>[0-9]*))?")
_FIELDS = ("tag", "owner")


def select_makers(graph: AssetGraph, selection: str) -> list[MakerDef]:
    """The assets and tasks that a text selects, in topological order."""
    selected: set[str] = set()
    for term in selection_terms(selection):
        selected |= _chosen(graph, term)
    return graph.in_order(selected if selection_terms(selection) else graph.nodes)


def selection_terms(selection: str) -> list[str]:
    """The terms of a selection, each once, in order."""
    return list(dict.fromkeys(selection.replace(",", " ").split()))


def _chosen(graph: AssetGraph, term: str) -> set[str]:
    match = _TERM.fullmatch(term)
    if match is None or not match["what"]:
        raise Invalid(
            f"{term!r} does not choose anything: write '+gold.orders', 'gold.orders+' or 'tag:daily'"
        )
    named = [name for name, node in graph.nodes.items() if _is_meant(node, match["what"])]
    if not named:
        raise Invalid(_unknown(graph, match["what"]))
    selected = set(named)
    if match["up"] is not None:
        selected |= graph.upstream(named, int(match["up"]) if match["up"] else None)
    if match["down"] is not None:
        selected |= graph.downstream(named, int(match["down"]) if match["down"] else None)
    if all(isinstance(graph.nodes[name], SourceDef) for name in selected):
        raise Invalid(
            f"{term!r} selects only sources, which the project does not make: write "
            f"'{match['what']}+' for everything downstream of them"
        )
    return selected


def _is_meant(node: Node, what: str) -> bool:
    field, colon, value = what.partition(":")
    if colon and field in _FIELDS:
        match = node.tags if field == "tag" else (node.owner,) if node.owner else ()
        return any(fnmatchcase(each, value) for each in match)
    return any(fnmatchcase(name, what) for name in node_names(node))


def node_names(node: Node) -> Iterator[str]:
    """All names by which a node can be selected."""
    tables = [node.name] if isinstance(node, SourceDef | TaskDef) else []
    if not isinstance(node, SourceDef):
        tables += [output.table for output in node.outputs]
    for table in tables:
        yield table
        yield short_name(table)


def _unknown(graph: AssetGraph, what: str) -> str:
    field, colon, value = what.partition(":")
    if colon and field in _FIELDS:
        return f"nothing has the {field} {value!r}{suggest(value, _declared_values(graph, field))}"
    names = {short_name(name) for node in graph.nodes.values() for name in node_names(node)}
    if any(letter in what for letter in "*?["):
        return f"no asset or task matches {what!r}{suggest(what, names)}"
    return f"there is no asset or task {what!r}{suggest(what, names)}"


def _declared_values(graph: AssetGraph, field: str) -> set[str]:
    if field == "tag":
        return {tag for node in graph.nodes.values() for tag in node.tags}
    return {node.owner for node in graph.nodes.values() if node.owner}


def suggest(word: str, words: set[str]) -> str:
    """Similar words as the end of an error message; if there are none, the first few words."""
    close = difflib.get_close_matches(word, sorted(words), n=3, cutoff=0.6)
    if close:
        return f"; is {' or '.join(close)} meant?"
    listed = sorted(words)
    more = f" and {len(listed) - 5} more" if len(listed) > 5 else ""
    return f": there {'are' if len(listed) > 1 else 'is'} {', '.join(listed[:5])}{more}" * bool(
        listed
    )
