"""Mermaid: a drawing that Markdown pages show."""

from arco.cli.lineage.drawing import Drawing

# Everything else in a name is written as its number, as Mermaid has no way to quote some of it.
_PLAIN = frozenset(" ._-/:=@+,()*")


def to_mermaid(drawing: Drawing) -> str:
    """A flowchart from left to right."""
    lines = ["flowchart LR"]
    for frame, text in drawing.frames.items():
        lines.append(f'  subgraph {frame}["{escaped(text)}"]')
        lines += [
            f'    {box.id}["{escaped(box.text)}"]' for box in drawing.boxes if box.frame == frame
        ]
        lines.append("  end")
    lines += [f'  {box.id}["{escaped(box.text)}"]' for box in drawing.boxes if box.frame is None]
    for arrow in drawing.arrows:
        line = "-.->" if arrow.dashed else "-->"
        text = f'|"{escaped(arrow.text)}"|' if arrow.text else ""
        lines.append(f"  {arrow.source} {line}{text} {arrow.target}")
    lines.append(f"  style {drawing.start} stroke-width:3px")
    return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    """A text for between double quotes."""
    return "".join(each if each.isalnum() or each in _PLAIN else f"#{ord(each)};" for each in text)
