"""Spark SQL's simple strings as Iceberg's types, and the ids of their fields.

What Iceberg lacks but can hold is widened (a smallint is an int, a char a string); what it cannot hold is
refused. Ids are given in Iceberg's order: all fields of a struct before what is nested in them.
"""

from collections.abc import Callable

from arco.catalog.data_type import Token, normalise, read_name, read_string, tokens
from arco.core.errors import Invalid
from arco.core.json import Json
from arco.iceberg.engine import shape
from arco.iceberg.engine.shape import Object

NextId = Callable[[], int]

_PLAIN = {
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
_SPATIAL = frozenset({"geometry", "geography"})
_BINARY_COLLATION = "UTF8_BINARY"  # the order of bytes, which is no collation at all


def iceberg_type(data_type: str) -> Json:
    """The type, without ids: `numbered` gives it those."""
    return _Reader(tokens(normalise(data_type))).type()


def numbered(kind: Json, next_id: NextId) -> Json:
    """`kind` with an id for each of its fields, elements, keys and values that has none yet."""
    if not isinstance(kind, dict):
        return kind
    if kind["type"] == "struct":
        return {**kind, "fields": numbered_fields(kind, next_id)}
    parts = ("element",) if kind["type"] == "list" else ("key", "value")
    ids = {f"{part}-id": _id(kind.get(f"{part}-id"), next_id) for part in parts}
    types = {part: numbered(kind.get(part), next_id) for part in parts}
    return {**kind, **ids, **types}


def numbered_fields(struct: Object, next_id: NextId) -> list[Json]:
    """The fields of `struct`, each with an id."""
    fields = [
        {"id": _id(each.get("id"), next_id), **each}
        for each in shape.objects(struct, "fields", "a struct")
    ]
    return [{**each, "type": numbered(each.get("type"), next_id)} for each in fields]


def _id(found: Json, next_id: NextId) -> int:
    return next_id() if found is None else shape.as_int(found, "an id")


class _Reader:
    """Reads a normalised text, which has no mistakes left, from left to right."""

    def __init__(self, found: list[Token]) -> None:
        self._tokens = iter(found)
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
        if word in _SPATIAL:
            return _spatial(word, arguments[0])
        if arguments and word in _NANOSECONDS:
            return _NANOSECONDS[word]
        kind = _PLAIN.get(word)
        if kind is None:
            raise Invalid(f"Iceberg has no type for {word}: choose another one for the column")
        return kind

    def _arguments(self) -> list[str]:
        found: list[str] = []
        if self._skip("("):
            while not self._skip(")"):
                found.append(self._take().text)
                self._skip(",")
        return found

    @staticmethod
    def _refuse_collation(name: str) -> None:
        if name != _BINARY_COLLATION:
            raise Invalid(f"Iceberg has no collations, such as {name[:80]}: leave it out")

    def _types(self) -> list[Json]:
        self._take()
        found = [self.type()]
        while self._skip(","):
            found.append(self.type())
        self._take()
        return found

    def _fields(self) -> list[Json]:
        found: list[Json] = []
        self._take()
        while not self._skip(">"):
            found.append(self._field())
            self._skip(",")
        return found

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
        found = self._next.text == text and self._next.kind in {"mark", "word"}
        if found:
            self._take()
        return found


def _spatial(name: str, srid: str) -> str:
    if srid == "any":
        raise Invalid(
            f"Iceberg has no {name} with several coordinate systems: name one by its SRID"
        )
    if srid == "4326":
        return name  # the default of both
    return f"{name}(SRID:0)" if srid == "0" else f"{name}(EPSG:{srid})"
