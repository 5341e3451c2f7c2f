"""The tree: the table at its root, what it is made of above, what is made of it below.

A table that is reached by several ways is unfolded on one of the shortest, so every edge is told once and
cycles end.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field

from arco.cli.lineage.words import (
    EVERY_COLUMN,
    HOW,
    column_text,
    edge_text,
    node_text,
    run_text,
)
from arco.cli.listing import Cells, one_line
from arco.query.lineage.response import (
    MAX_DEPTH,
    Impact,
    ImpactStep,
    Lineage,
    LineageEdge,
    LineageNode,
)

MADE_OF, MAKES = "is made of", "is read for"


@dataclass
class Branch:
    """A line of a tree and what hangs on it; `note` is said of it in passing."""

    text: str
    note: str = ""
    branches: list["Branch"] = field(default_factory=list)


def tree_of(lineage: Lineage) -> Branch:
    """The tree of an answer."""
    nodes = {node.id: node for node in lineage.nodes}
    root = Branch(node_text(nodes[lineage.table_id]))
    for word, up in ((MADE_OF, True), (MAKES, False)):
        branches = _Unfolding(lineage, nodes, up=up).below(lineage.table_id)
        if branches:
            root.branches.append(Branch(word, branches=branches))
    return root


class _Unfolding:
    """One direction of a lineage, unfolded table by table."""

    def __init__(self, lineage: Lineage, nodes: dict[str, LineageNode], *, up: bool) -> None:
        self._nodes = nodes
        self._up = up
        self._edges: dict[str, list[LineageEdge]] = {}
        for edge in lineage.edges:
            # What was walked in the other direction alone is no part of this one.
            if self._steps(self._near(edge)) < lineage.depth:
                self._edges.setdefault(self._near(edge), []).append(edge)
        self._unfolded: set[str] = set()

    def below(self, table: str) -> list[Branch]:
        """The branches of a table, by name."""
        self._unfolded.add(table)
        return [
            self._branch(table, edge)
            for edge in sorted(self._edges.get(table, ()), key=self._order)
        ]

    def _branch(self, table: str, edge: LineageEdge) -> Branch:
        other = self._far(edge)
        branch = Branch(node_text(self._nodes[other]), edge_text(edge))
        branch.branches += [Branch(column_text(each)) for each in edge.columns]
        branch.branches += [Branch(run_text(each)) for each in edge.runs]
        is_shortest = self._steps(other) == self._steps(table) + 1
        if other == table:
            branch.text += " (itself)"
        elif is_shortest and other not in self._unfolded:
            branch.branches += self.below(other)
        elif self._edges.get(other):
            branch.text += " (unfolded elsewhere)"
        return branch

    def _near(self, edge: LineageEdge) -> str:
        return edge.target if self._up else edge.source

    def _far(self, edge: LineageEdge) -> str:
        return edge.source if self._up else edge.target

    def _steps(self, table: str) -> int:
        node = self._nodes[table]
        steps = node.up if self._up else node.down
        return MAX_DEPTH + 1 if steps is None else steps

    def _order(self, edge: LineageEdge) -> tuple[str, str]:
        other = self._far(edge)
        return self._nodes[other].name, other


def print_tree(root: Branch) -> None:
    """Print a tree, in colours on a terminal."""
    if sys.stdout.isatty():
        _draw(root)
        return
    for line in lines(root):
        print(line)


def lines(branch: Branch, first: str = "", rest: str = "") -> Iterator[str]:
    """The tree as plain lines."""
    yield f"{first}{branch.text}" + (f"  [{branch.note}]" if branch.note else "")
    for each in branch.branches:
        last = each is branch.branches[-1]
        yield from lines(each, rest + ("└─ " if last else "├─ "), rest + ("   " if last else "│  "))


def _draw(root: Branch) -> None:
    from rich.console import Console

    Console(highlight=False).print(_rich(root))


def _rich(branch: Branch) -> object:
    from rich.text import Text
    from rich.tree import Tree

    label = Text(branch.text)
    if branch.note:
        label.append(f"  {branch.note}", style="dim")
    tree = Tree(label, guide_style="dim")
    for each in branch.branches:
        tree.children.append(_rich(each))  # type: ignore[arg-type]
    return tree


def affected_rows(impact: Impact) -> list[Cells]:
    """A line for each thing that depends on a column."""
    names = {node.id: node.name for node in impact.nodes}

    def text(step: ImpactStep) -> str:
        return f"{names[step.table_id]}.{step.column or f'({EVERY_COLUMN})'}"

    return [
        (
            text(each.path[-1]),
            HOW[each.reach],
            str(each.distance),
            one_line(" -> ".join(f"{step.transformation} {text(step)}" for step in each.path)),
        )
        for each in impact.affected
    ]
