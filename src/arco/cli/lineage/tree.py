"""Lineage as text: the table at the root of a tree, what it is made of above, what is made of it below.

A table that several paths lead to is expanded on one of the shortest, so every edge is printed once, and
cycles end.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field

from arco.cli.rendering import Cells, one_line
from arco.query.lineage.response import (
    MAX_DEPTH,
    Impact,
    ImpactStep,
    Lineage,
    LineageColumnEdge,
    LineageEdge,
    LineageNode,
    LineageRun,
)

MADE_OF, MAKES = "is made of", "is read for"
EVERY_COLUMN = "all columns"
REACHES = {
    "value": "by its values",
    "influence": "by its influence",
    "table": "perhaps, as tables do",
}
_MARKS = {"EXTERNAL": " (external)", "UNKNOWN": " (not in the catalog)", "VIEW": " (view)"}


@dataclass
class Branch:
    """A line of the tree, its branches, and a note behind it."""

    text: str
    note: str = ""
    branches: list["Branch"] = field(default_factory=list)


def tree_of(lineage: Lineage) -> Branch:
    """The tree of an answer."""
    nodes = {node.id: node for node in lineage.nodes}
    root = Branch(node_text(nodes[lineage.table_id]))
    for word, up in ((MADE_OF, True), (MAKES, False)):
        branches = _Expansion(lineage, nodes, up=up).below(lineage.table_id)
        if branches:
            root.branches.append(Branch(word, branches=branches))
    return root


class _Expansion:
    """One direction of a lineage, expanded table by table."""

    def __init__(self, lineage: Lineage, nodes: dict[str, LineageNode], *, up: bool) -> None:
        self._nodes = nodes
        self._up = up
        self._edges: dict[str, list[LineageEdge]] = {}
        for edge in lineage.edges:
            # What was walked in the other direction alone is no part of this one.
            if self._steps(self._near(edge)) < lineage.depth:
                self._edges.setdefault(self._near(edge), []).append(edge)
        self._expanded: set[str] = set()

    def below(self, table: str) -> list[Branch]:
        """The branches of a table, by name."""
        self._expanded.add(table)
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
        elif is_shortest and other not in self._expanded:
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
    """A line for each table or column that depends on a column."""
    names = {node.id: node.name for node in impact.nodes}

    def text(step: ImpactStep) -> str:
        return f"{names[step.table_id]}.{step.column or f'({EVERY_COLUMN})'}"

    return [
        (
            text(each.path[-1]),
            REACHES[each.reach],
            str(each.distance),
            one_line(" -> ".join(f"{step.transformation} {text(step)}" for step in each.path)),
        )
        for each in impact.affected
    ]


def node_text(node: LineageNode) -> str:
    """A table, and what is particular about it."""
    mark = " (dropped)" if node.dropped else _MARKS.get(node.kind, "")
    return one_line(node.name) + mark


def edge_text(edge: LineageEdge) -> str:
    """What is known of an edge between tables."""
    count = edge.column_edges
    parts = [", ".join(edge.soundness)] if edge.soundness else []
    if count:
        parts.append(f"{count:,} column edge" + ("" if count == 1 else "s"))
    if edge.last_observed_at is not None:
        parts.append(f"seen {edge.last_observed_at:%Y-%m-%dT%H:%M:%SZ}")
    return "; ".join(parts)


def column_text(edge: LineageColumnEdge) -> str:
    """An edge between columns."""
    source, target = edge.source_column or EVERY_COLUMN, edge.target_column or EVERY_COLUMN
    return one_line(f"{source} -> {target}  {edge.transformation}")


def run_text(run: LineageRun) -> str:
    """A run that has shown an edge."""
    observed = "" if run.observed_at is None else f"  {run.observed_at:%Y-%m-%dT%H:%M:%SZ}"
    task = f" task {run.task_id}" if run.task_id else ""
    return one_line(f"run {run.execution_id or 'unknown'}{task}{observed}")
