"""Lineage as a graph: boxes and arrows, written for Graphviz (DOT) or for Markdown pages (Mermaid)."""

from dataclasses import dataclass, field

from arco.cli.lineage.tree import EVERY_COLUMN, node_text
from arco.query.lineage.response import Impact, Lineage, LineageNode

# Everything else in a name is written as its number, as Mermaid has no way to quote some of it.
_PLAIN_IN_MERMAID = frozenset(" ._-/:=@+,()*")


@dataclass(frozen=True)
class Box:
    """Something that arrows lead to, perhaps in a frame."""

    id: str
    text: str
    frame: str | None = None


@dataclass(frozen=True)
class Arrow:
    """From a box to a box; one that is less sure is dashed."""

    source: str
    target: str
    text: str = ""
    dashed: bool = False


@dataclass
class Drawing:
    """Frames by id, boxes and arrows, each in the order in which they are drawn."""

    frames: dict[str, str] = field(default_factory=dict)
    boxes: list[Box] = field(default_factory=list)
    arrows: list[Arrow] = field(default_factory=list)
    start: str = ""  # the box or frame that was asked about


def draw_lineage(lineage: Lineage) -> Drawing:
    """Tables and arrows between them; with columns, tables are frames around their columns."""
    if any(edge.columns for edge in lineage.edges):
        return _draw_columns(lineage)
    drawing = Drawing()
    ids = {node.id: f"t{at}" for at, node in enumerate(lineage.nodes)}
    drawing.start = ids[lineage.table_id]
    drawing.boxes = [Box(ids[node.id], node_text(node)) for node in lineage.nodes]
    drawing.arrows = [
        Arrow(ids[edge.source], ids[edge.target], dashed=edge.soundness == ("declared",))
        for edge in lineage.edges
    ]
    return drawing


def draw_impact(impact: Impact) -> Drawing:
    """The column, and all paths that lead from it."""
    framed = _Framed(impact.nodes)
    start = framed.box(impact.table_id, impact.column)
    arrows = set()
    for column in impact.affected:
        at = start
        for step in column.path:
            box = framed.box(step.table_id, step.column)
            arrow = Arrow(at, box, step.transformation, dashed=step.reach != "value")
            if arrow not in arrows:
                arrows.add(arrow)
                framed.drawing.arrows.append(arrow)
            at = box
    framed.drawing.start = start
    return framed.drawing


def _draw_columns(lineage: Lineage) -> Drawing:
    framed = _Framed(lineage.nodes)
    framed.drawing.start = framed.frame(lineage.table_id)
    for edge in lineage.edges:
        for column in edge.columns:
            source = framed.box(edge.source, column.source_column)
            target = framed.box(edge.target, column.target_column)
            dashed = column.reach != "value"
            framed.drawing.arrows.append(
                Arrow(source, target, column.transformation, dashed=dashed)
            )
        if not edge.columns:
            source, target = framed.box(edge.source, None), framed.box(edge.target, None)
            framed.drawing.arrows.append(Arrow(source, target, dashed=True))
    return framed.drawing


class _Framed:
    """A drawing of columns in the frames of their tables, each made when it is first needed."""

    def __init__(self, nodes: tuple[LineageNode, ...]) -> None:
        self.drawing = Drawing()
        self._texts = {node.id: node_text(node) for node in nodes}
        self._frames: dict[str, str] = {}
        self._boxes: dict[tuple[str, str | None], str] = {}

    def frame(self, table: str) -> str:
        frame_id = self._frames.get(table)
        if frame_id is None:
            frame_id = self._frames[table] = f"t{len(self._frames)}"
            self.drawing.frames[frame_id] = self._texts[table]
        return frame_id

    def box(self, table: str, column: str | None) -> str:
        frame = self.frame(table)
        box_id = self._boxes.get((table, column))
        if box_id is None:
            box_id = self._boxes[table, column] = f"c{len(self._boxes)}"
            text = f"({EVERY_COLUMN})" if column is None else column
            self.drawing.boxes.append(Box(box_id, text, frame))
        return box_id


def to_dot(drawing: Drawing) -> str:
    """The drawing as DOT, from left to right."""
    lines = ["digraph lineage {", "  rankdir=LR;", "  node [shape=box];"]
    for frame, text in drawing.frames.items():
        lines += [f"  subgraph cluster_{frame} {{", f"    label={quote_dot(text)};"]
        if frame == drawing.start:
            lines.append("    penwidth=3;")
        lines += [f"    {_box(box, drawing)}" for box in drawing.boxes if box.frame == frame]
        lines.append("  }")
    lines += [f"  {_box(box, drawing)}" for box in drawing.boxes if box.frame is None]
    for arrow in drawing.arrows:
        style = [f"label={quote_dot(arrow.text)}"] if arrow.text else []
        style += ["style=dashed"] if arrow.dashed else []
        options = f" [{', '.join(style)}]" if style else ""
        lines.append(f"  {arrow.source} -> {arrow.target}{options};")
    return "\n".join([*lines, "}"]) + "\n"


def _box(box: Box, drawing: Drawing) -> str:
    width = ", penwidth=3" if box.id == drawing.start else ""
    return f"{box.id} [label={quote_dot(box.text)}{width}];"


def quote_dot(text: str) -> str:
    """A text in double quotes; a backslash is written twice, as DOT has escapes."""
    plain = "".join(each if each.isprintable() else f"\\u{ord(each):04x}" for each in text)
    return '"' + plain.replace("\\", "\\\\").replace('"', '\\"') + '"'


def to_mermaid(drawing: Drawing) -> str:
    """The drawing as a Mermaid flowchart, from left to right."""
    lines = ["flowchart LR"]
    for frame, text in drawing.frames.items():
        lines.append(f'  subgraph {frame}["{escape_mermaid(text)}"]')
        lines += [
            f'    {box.id}["{escape_mermaid(box.text)}"]'
            for box in drawing.boxes
            if box.frame == frame
        ]
        lines.append("  end")
    lines += [
        f'  {box.id}["{escape_mermaid(box.text)}"]' for box in drawing.boxes if box.frame is None
    ]
    for arrow in drawing.arrows:
        line = "-.->" if arrow.dashed else "-->"
        text = f'|"{escape_mermaid(arrow.text)}"|' if arrow.text else ""
        lines.append(f"  {arrow.source} {line}{text} {arrow.target}")
    lines.append(f"  style {drawing.start} stroke-width:3px")
    return "\n".join(lines) + "\n"


def escape_mermaid(text: str) -> str:
    """A text for between double quotes."""
    return "".join(
        each if each.isalnum() or each in _PLAIN_IN_MERMAID else f"#{ord(each)};" for each in text
    )
