"""Iceberg's types as Spark SQL's simple strings, as the catalog stores them, and the other way.

Spark shows a UUID as string and fixed-length bytes as binary; so does the catalog. A coordinate system
without an EPSG number becomes `any`. A Spark type that Iceberg lacks but can hold is widened (smallint
to int, char to string); others are refused. Ids are assigned in Iceberg's order: all fields of a struct
before nested ones.
"""

import re
from collections.abc import Callable

from arco.catalog.data_type import (
    MAX_CHARACTERS,
    MAX_DEPTH,
    Token,
    normalise,
    print_name,
    print_string,
    read_name,
    read_string,
    tokens,
)
from arco.catalog.name import MAX_TEXT_BYTES
from arco.core.errors import Invalid
from arco.core.json import Json
from arco.iceberg.engine import shape
from arco.iceberg.engine.field_type import read_plain
from arco.iceberg.engine.shape import Object

_TO_SPARK = {
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
_SPATIAL_TYPE = re.compile(r"(geometry|geography)(?:\(([^,)]*)[^)]*\))?", re.IGNORECASE)
_NUMBERED = re.compile(r"(?:epsg|srid):(\d{1,9})", re.IGNORECASE)
_WGS84 = "4326"
_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")

NextId = Callable[[], int]
_FROM_SPARK = {
    **dict.fromkeys(("tinyint", "smallint", "int"), "int"),
    **dict.fromkeys(("string", "char", "varchar"), "string"),
    "boolean": "boolean",
    "bigint": "long",
    "float": "float",
    "double": "double",
    "date": "date",
    "time": "time",
    "timestamp": "timestamptz",
    "timestamp_ntz": "timestamp",
    "binary": "binary",
    "variant": "variant",
}
_NANOSECONDS = {"timestamp_ltz": "timestamptz_ns", "timestamp_ntz": "timestamp_ns"}
_SPATIAL_NAMES = frozenset({"geometry", "geography"})
_BINARY_COLLATION = "UTF8_BINARY"  # byte order, which Iceberg has too


def spark_type(kind: Json, label: str) -> str:
    """The type of the column `label`, as `normalise` spells it, or `Invalid`."""
    text = _Printer(comments=True).type(kind, label, 1)
    if len(text) > MAX_CHARACTERS:
        text = _Printer(comments=False).type(kind, label, 1)
    try:
        return normalise(text)
    except Invalid as problem:
        raise Invalid(f"column {label[:80]!r}: {problem}") from problem


def clean_comment(text: str) -> str:
    """`text` as a comment without characters that the catalog cannot store."""
    shown = _UNPRINTABLE.sub(" ", text)
    return shown.encode()[:MAX_TEXT_BYTES].decode(errors="ignore")


class _Printer:
    """Prints types; without comments if they make a type too long."""

    def __init__(self, *, comments: bool) -> None:
        self._comments = comments

    def type(self, kind: Json, label: str, depth: int) -> str:
        """One type, `depth` levels down."""
        if isinstance(kind, str):
            return _plain_type(kind)
        if depth > MAX_DEPTH:
            raise Invalid(f"column {label[:80]!r}: types are nested more than {MAX_DEPTH} deep")
        type_object = shape.as_object(kind, f"the type of {label}")
        name = shape.text(type_object, "type", f"the type of {label}")
        if name == "struct":
            fields = shape.objects(type_object, "fields", f"struct {label}")
            return f"struct<{','.join(self._field(each, label, depth) for each in fields)}>"
        if name == "list":
            return f"array<{self._part(type_object, 'element', label, depth)}>"
        if name == "map":
            key = self._part(type_object, "key", label, depth)
            return f"map<{key},{self._part(type_object, 'value', label, depth)}>"
        raise Invalid(f"column {label[:80]!r}: there is no nested type {name[:80]!r}")

    def _part(self, holder: Object, part: str, label: str, depth: int) -> str:
        shape.integer(holder, f"{part}-id", label)
        return self.type(holder.get(part), label, depth + 1)

    def _field(self, field: Object, label: str, depth: int) -> str:
        name = shape.text(field, "name", f"a field of {label}")
        shape.integer(field, "id", f"field {name} of {label}")
        printed = f"{print_name(name)}:{self.type(field.get('type'), label, depth + 1)}"
        if shape.flag(field, "required", f"field {name} of {label}"):
            printed += " not null"
        doc = shape.maybe_text(field, "doc", f"field {name} of {label}")
        if doc and self._comments:
            printed += f" comment {print_string(clean_comment(doc))}"
        return printed


def _plain_type(text: str) -> str:
    kind = _TO_SPARK.get(text) or _TO_SPARK.get(normalized := read_plain(text))
    if kind is not None:
        return kind
    if normalized.startswith("fixed"):
        return "binary"
    if match := _SPATIAL_TYPE.fullmatch(normalized):
        return f"{match[1].lower()}({_srid(match[2])})"
    return normalized.replace(" ", "")  # a decimal


def _srid(crs: str | None) -> str:
    """The SRID of a coordinate system; Iceberg's default is 4326 in Spark."""
    if crs is None or crs.strip().upper() == "OGC:CRS84":
        return _WGS84
    numbered = _NUMBERED.fullmatch(crs.strip())
    return str(int(numbered[1])) if numbered else "any"


def iceberg_type(data_type: str) -> Json:
    """The type without ids; `with_ids` adds them."""
    return _Reader(tokens(normalise(data_type))).type()


def with_ids(kind: Json, next_id: NextId) -> Json:
    """`kind` with an id for each field, element, key and value that has none."""
    if not isinstance(kind, dict):
        return kind
    if kind["type"] == "struct":
        return {**kind, "fields": fields_with_ids(kind, next_id)}
    parts = ("element",) if kind["type"] == "list" else ("key", "value")
    ids = {f"{part}-id": _id(kind.get(f"{part}-id"), next_id) for part in parts}
    types = {part: with_ids(kind.get(part), next_id) for part in parts}
    return {**kind, **ids, **types}


def fields_with_ids(struct: Object, next_id: NextId) -> list[Json]:
    """The fields of `struct`, each with an id."""
    fields = [
        {"id": _id(each.get("id"), next_id), **each}
        for each in shape.objects(struct, "fields", "a struct")
    ]
    return [{**each, "type": with_ids(each.get("type"), next_id)} for each in fields]


def _id(given_id: Json, next_id: NextId) -> int:
    return next_id() if given_id is None else shape.as_int(given_id, "an id")


class _Reader:
    """Parses a normalised type, which is known to be valid."""

    def __init__(self, parsed_tokens: list[Token]) -> None:
        self._tokens = iter(parsed_tokens)
        self._next = next(self._tokens)

    def type(self) -> Json:
        word = self._take().text
        if word == "struct":
            return {"type": "struct", "fields": self._fields()}
        if word == "array":
            (element,) = self._types()
            return {"type": "list", "element": element, "element-required": False}
        if word == "map":
            key, value = self._types()
            return {"type": "map", "key": key, "value": value, "value-required": False}
        return self._plain(word)

    def _plain(self, word: str) -> str:
        arguments = self._arguments()
        if self._skip("collate"):
            self._refuse_collation(self._take().text)
        if word == "decimal":
            return f"decimal({arguments[0]}, {arguments[1]})"
        if word in _SPATIAL_NAMES:
            return _spatial(word, arguments[0])
        if arguments and word in _NANOSECONDS:
            return _NANOSECONDS[word]
        kind = _FROM_SPARK.get(word)
        if kind is None:
            raise Invalid(f"Iceberg has no type for {word}: choose another one for the column")
        return kind

    def _arguments(self) -> list[str]:
        arguments: list[str] = []
        if self._skip("("):
            while not self._skip(")"):
                arguments.append(self._take().text)
                self._skip(",")
        return arguments

    @staticmethod
    def _refuse_collation(name: str) -> None:
        if name != _BINARY_COLLATION:
            raise Invalid(f"Iceberg has no collations, such as {name[:80]}: leave it out")

    def _types(self) -> list[Json]:
        self._take()
        types = [self.type()]
        while self._skip(","):
            types.append(self.type())
        self._take()
        return types

    def _fields(self) -> list[Json]:
        fields: list[Json] = []
        self._take()
        while not self._skip(">"):
            fields.append(self._field())
            self._skip(",")
        return fields

    def _field(self) -> Object:
        name = read_name(self._take())
        self._take()
        kind = self.type()
        required = self._skip("not")
        if required:
            self._take()
        field: Object = {"name": name, "required": required, "type": kind}
        if self._skip("comment"):
            field["doc"] = read_string(self._take())
        return field

    def _take(self) -> Token:
        token = self._next
        self._next = next(self._tokens, token)
        return token

    def _skip(self, text: str) -> bool:
        is_next = self._next.text == text and self._next.kind in {"mark", "word"}
        if is_next:
            self._take()
        return is_next


def _spatial(name: str, srid: str) -> str:
    if srid == "any":
        raise Invalid(
            f"Iceberg has no {name} with several coordinate systems: name one by its SRID"
        )
    if srid == "4326":
        return name  # the default of both
    return f"{name}(SRID:0)" if srid == "0" else f"{name}(EPSG:{srid})"
