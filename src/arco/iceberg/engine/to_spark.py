"""Iceberg's types as the catalog writes them: Spark SQL's simple strings.

Spark has no type of its own for a UUID or for bytes of a fixed length, and shows them as string and
binary; so do we. A coordinate system that is no number of the EPSG becomes `any`.
"""

import re

from arco.catalog.data_type import MOST_CHARACTERS, MOST_DEPTH, normalise, print_name, print_string
from arco.catalog.name import MOST_TEXT_BYTES
from arco.core.errors import Invalid
from arco.core.json import Json
from arco.iceberg.engine import shape
from arco.iceberg.engine.field_type import read_plain
from arco.iceberg.engine.shape import Object

_PLAIN = {
    "boolean": "boolean",
    "int": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
    "date": "date",
    "time": "time(6)",
    "timestamp": "timestamp_ntz",
    "timestamptz": "timestamp",
    "timestamp_ns": "timestamp_ntz(9)",
    "timestamptz_ns": "timestamp_ltz(9)",
    "string": "string",
    "uuid": "string",
    "binary": "binary",
    "unknown": "void",
    "variant": "variant",
}
_SPATIAL = re.compile(r"(geometry|geography)(?:\(([^,)]*)[^)]*\))?", re.IGNORECASE)
_NUMBERED = re.compile(r"(?:epsg|srid):(\d{1,9})", re.IGNORECASE)
_WGS84 = "4326"
_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")


def spark_type(kind: Json, what: str) -> str:
    """The type of the column `what`, as `normalise` spells it, or `Invalid`."""
    text = _Printer(comments=True).type(kind, what, 1)
    if len(text) > MOST_CHARACTERS:
        text = _Printer(comments=False).type(kind, what, 1)
    try:
        return normalise(text)
    except Invalid as problem:
        raise Invalid(f"column {what[:80]!r}: {problem}") from problem


def clean_comment(text: str) -> str:
    """`text` as a comment that the catalog takes: what it cannot show is left out."""
    shown = _UNPRINTABLE.sub(" ", text)
    return shown.encode()[:MOST_TEXT_BYTES].decode(errors="ignore")


class _Printer:
    """Prints types; without comments if those are what makes a type too long."""

    def __init__(self, *, comments: bool) -> None:
        self._comments = comments

    def type(self, kind: Json, what: str, depth: int) -> str:
        """One type, `depth` levels down."""
        if isinstance(kind, str):
            return _plain(kind)
        if depth > MOST_DEPTH:
            raise Invalid(f"column {what[:80]!r}: types are nested more than {MOST_DEPTH} deep")
        found = shape.as_object(kind, f"the type of {what}")
        name = shape.text(found, "type", f"the type of {what}")
        if name == "struct":
            fields = shape.objects(found, "fields", f"struct {what}")
            return f"struct<{','.join(self._field(each, what, depth) for each in fields)}>"
        if name == "list":
            return f"array<{self._part(found, 'element', what, depth)}>"
        if name == "map":
            key = self._part(found, "key", what, depth)
            return f"map<{key},{self._part(found, 'value', what, depth)}>"
        raise Invalid(f"column {what[:80]!r}: there is no nested type {name[:80]!r}")

    def _part(self, holder: Object, part: str, what: str, depth: int) -> str:
        shape.integer(holder, f"{part}-id", what)
        return self.type(holder.get(part), what, depth + 1)

    def _field(self, field: Object, what: str, depth: int) -> str:
        name = shape.text(field, "name", f"a field of {what}")
        shape.integer(field, "id", f"field {name} of {what}")
        printed = f"{print_name(name)}:{self.type(field.get('type'), what, depth + 1)}"
        if shape.flag(field, "required", f"field {name} of {what}"):
            printed += " not null"
        doc = shape.maybe_text(field, "doc", f"field {name} of {what}")
        if doc and self._comments:
            printed += f" comment {print_string(clean_comment(doc))}"
        return printed


def _plain(text: str) -> str:
    kind = _PLAIN.get(text) or _PLAIN.get(spelled := read_plain(text))
    if kind is not None:
        return kind
    if spelled.startswith("fixed"):
        return "binary"
    if match := _SPATIAL.fullmatch(spelled):
        return f"{match[1].lower()}({_srid(match[2])})"
    return spelled.replace(" ", "")  # a decimal


def _srid(crs: str | None) -> str:
    """The number of a coordinate system; Iceberg's own default is the one that Spark calls 4326."""
    if crs is None or crs.strip().upper() == "OGC:CRS84":
        return _WGS84
    numbered = _NUMBERED.fullmatch(crs.strip())
    return str(int(numbered[1])) if numbered else "any"
