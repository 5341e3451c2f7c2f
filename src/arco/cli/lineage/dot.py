"""DOT: a drawing that Graphviz lays out."""

from arco.cli.lineage.drawing import Box, Drawing


def to_dot(drawing: Drawing) -> str:
    """A graph from left to right."""
    lines = ["digraph lineage {", "  rankdir=LR;", "  node [shape=box];"]
    for frame, text in drawing.frames.items():
        lines += [f"  subgraph cluster_{frame} {{", f"    label={quoted(text)};"]
        if frame == drawing.start:
            lines.append("    penwidth=3;")
        lines += [f"    {_box(box, drawing)}" for box in drawing.boxes if box.frame == frame]
        lines.append("  }")
    lines += [f"  {_box(box, drawing)}" for box in drawing.boxes if box.frame is None]
    for arrow in drawing.arrows:
        style = [f"label={quoted(arrow.text)}"] if arrow.text else []
        style += ["style=dashed"] if arrow.dashed else []
        told = f" [{', '.join(style)}]" if style else ""
        lines.append(f"  {arrow.source} -> {arrow.target}{told};")
    return "\n".join([*lines, "}"]) + "\n"


def _box(box: Box, drawing: Drawing) -> str:
    width = ", penwidth=3" if box.id == drawing.start else ""
    return f"{box.id} [label={quoted(box.text)}{width}];"


def quoted(text: str) -> str:
    """A text in double quotes; DOT has escapes of its own, so a backslash is written twice."""
    plain = "".join(each if each.isprintable() else f"\\u{ord(each):04x}" for each in text)
    return '"' + plain.replace("\\", "\\\\").replace('"', '\\"') + '"'
