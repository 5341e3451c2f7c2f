"""The reference of all events in docs/reference/event-types.md, made of the kinds themselves.

`python -m tests.events.reference` writes it anew.
"""

import json
from pathlib import Path
from typing import Any

import msgspec
from msgspec import inspect

from arco.events.payload import decode_line
from arco.events.projection import EventBatch
from arco.events.registry import ANY_DOMAIN, KINDS, EventKind
from tests.events.stored_lines import admitted

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "event-types.md"
BEGIN, END = "<!-- what follows is made of the code -->\n", "<!-- until here -->\n"


def page_with(text: str, reference: str) -> str:
    """The page with another reference in its place."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{reference}{END}{after}"


def reference() -> str:
    return "".join(_entry(kind) for kind in KINDS)


def _entry(kind: EventKind) -> str:
    domain = "that of the line" if kind.domain == ANY_DOMAIN else f"`{kind.domain}`"
    lines = [f"\n### {kind.name}", "", kind.summary]
    lines += [
        f"Version {kind.version}, domain {domain}.{' EventBatch by Arco alone.' * kind.ours}",
        "",
    ]
    lines += ["| field | type | if left out |", "|---|---|---|", *_fields(kind.type.payload), ""]
    for inner in _parts(kind.type.payload):
        lines += [f"`{inner.cls.__name__}`: {_sentence(inner)}", ""]
        lines += ["| field | type | if left out |", "|---|---|---|", *_fields(inner.cls), ""]
    for made in kind.projections:
        columns = made.rows(_told(kind)).columns
        shown = [f"`{name}`" for name in made.table.visible if name in columns]
        lines += [f"- makes rows of `{made.table.name}`: {', '.join(shown)}"]
    example = json.dumps(kind.example, indent=2, ensure_ascii=False)
    return "\n".join([*lines, "", "```json", example, "```", ""])


def _told(kind: EventKind) -> EventBatch[Any]:
    """The example, as a projection is given it."""
    payload = msgspec.convert(kind.example, kind.type.payload)
    line = decode_line(admitted(kind.name, kind.example))
    return EventBatch.of(b"", [line], [payload])


def _sentence(part: inspect.StructType) -> str:
    """The docstring begins a sentence of its own on the page."""
    return " ".join(str(part.cls.__doc__).split())


def _fields(payload: type[msgspec.Struct]) -> list[str]:
    """The fields of a payload, those first that are needed."""
    found = inspect.type_info(payload)
    assert isinstance(found, inspect.StructType)
    ordered = sorted(found.fields, key=lambda each: not each.required)
    return [f"| `{each.encode_name}` | {_type(each.type)} | {_default(each)} |" for each in ordered]


def _default(field: inspect.Field) -> str:
    if field.required:
        return "refused"
    if field.default is None or field.default == ():
        return "not known" if field.default is None else "none"
    return f"`{json.dumps(field.default)}`"


def _type(kind: inspect.Type) -> str:
    match kind:
        case inspect.UnionType():
            return " or ".join(_type(each) for each in kind.types if not _nothing(each))
        case inspect.LiteralType():
            return ", ".join(f"`{value}`" for value in kind.values)
        case inspect.VarTupleType():
            return f"list of {_type(kind.item_type)}"
        case inspect.DictType():
            return f"map of {_type(kind.value_type)}"
        case inspect.StructType():
            return f"`{kind.cls.__name__}`"
        case inspect.StrType():
            return "text" if kind.max_length is None else f"text of at most {kind.max_length:,}"
        case inspect.IntType():
            return f"integer from {kind.ge}"
        case _:
            return _NAMES[type(kind)]


_NAMES = {inspect.DateTimeType: "time", inspect.BoolType: "boolean", inspect.FloatType: "number"}


def _nothing(kind: inspect.Type) -> bool:
    return isinstance(kind, inspect.NoneType)


def _parts(payload: type[msgspec.Struct]) -> list[inspect.StructType]:
    """The structs of which a payload has lists."""
    found = inspect.type_info(payload)
    assert isinstance(found, inspect.StructType)
    lists = [each.type for each in found.fields if isinstance(each.type, inspect.VarTupleType)]
    return [each.item_type for each in lists if isinstance(each.item_type, inspect.StructType)]


if __name__ == "__main__":
    PAGE.write_text(page_with(PAGE.read_text(), reference()))
