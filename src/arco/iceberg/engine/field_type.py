"""Types of columns in Iceberg's JSON: a string for primitive types, an object for nested ones.

A primitive type is normalized to one spelling. Geometry and geography keep their text, since coordinate
systems are named by others.
"""

import re
from collections.abc import Callable

from arco.core.errors import Invalid
from arco.core.json import Json
from arco.iceberg.engine import shape
from arco.iceberg.engine.shape import Object

MAX_DEPTH = 64  # of nested types

_PLAIN = frozenset(
    {
        *("boolean", "int", "long", "float", "double", "date", "time", "string", "uuid", "binary"),
        *("timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns", "unknown", "variant"),
    }
)
_SINCE_V3 = frozenset(
    {"timestamp_ns", "timestamptz_ns", "unknown", "variant", "geometry", "geography"}
)
_FIXED = re.compile(r"fixed\[\s*(\d{1,9})\s*\]")
_DECIMAL = re.compile(r"decimal\(\s*(\d{1,9})\s*,\s*(\d{1,9})\s*\)")
_GEOMETRY = re.compile(r"(geometry)\s*(?:\(\s*([^()]+?)\s*\))?", re.IGNORECASE)
_GEOGRAPHY = re.compile(r"(geography)\s*(?:\(\s*([^(),]+?)\s*(?:,\s*(\w+)\s*)?\))?", re.IGNORECASE)
_MAX_PRECISION = 38
_CRS = "OGC:CRS84"
_EDGES = frozenset({"spherical", "vincenty", "thomas", "andoyer", "karney"})

FieldReader = Callable[[Object, int], Object]


def read_type(value: Json, label: str, read_field: FieldReader, depth: int = 1) -> Json:
    """The normalized type `value`; `read_field` reads the fields of structs."""
    if isinstance(value, str):
        return read_plain(value)
    if depth > MAX_DEPTH:
        raise Invalid(f"types are nested more than {MAX_DEPTH} deep")
    if not isinstance(value, dict):
        raise Invalid(f"the type of {label} must be a string or an object, not {shape.kind(value)}")
    name = shape.text(value, "type", f"the type of {label}")
    if name == "struct":
        fields: list[Json] = [
            read_field(field, depth + 1)
            for field in shape.objects(value, "fields", f"struct {label}")
        ]
        return {**value, "fields": fields}
    if name == "list":
        return _read_list(value, label, read_field, depth)
    if name == "map":
        return _read_map(value, label, read_field, depth)
    raise Invalid(f"there is no nested type {name!r}, only struct, list and map")


def _read_list(list_type: Object, label: str, read_field: FieldReader, depth: int) -> Json:
    shape.integer(list_type, "element-id", f"list {label}")
    element = read_type(list_type.get("element"), f"{label}.element", read_field, depth + 1)
    if shape.flag(list_type, "element-required", f"list {label}"):
        refuse_required_unknown(element, f"{label}.element")
    return {**list_type, "element": element}


def _read_map(map_type: Object, label: str, read_field: FieldReader, depth: int) -> Json:
    shape.integer(map_type, "key-id", f"map {label}")
    shape.integer(map_type, "value-id", f"map {label}")
    key = read_type(map_type.get("key"), f"{label}.key", read_field, depth + 1)
    value = read_type(map_type.get("value"), f"{label}.value", read_field, depth + 1)
    refuse_required_unknown(key, f"{label}.key")
    if shape.flag(map_type, "value-required", f"map {label}"):
        refuse_required_unknown(value, f"{label}.value")
    return {**map_type, "key": key, "value": value}


def refuse_required_unknown(value: Json, label: str) -> None:
    """A column of type unknown holds nothing but nulls, so it cannot be required."""
    if value == "unknown":
        raise Invalid(f"Cannot create required field with unknown type: {label}")


def read_plain(text: str) -> str:
    """The normalized text of a primitive type."""
    lower = text.lower()
    if lower in _PLAIN:
        return lower
    if match := _FIXED.fullmatch(lower):
        return f"fixed[{int(match[1])}]"
    if match := _DECIMAL.fullmatch(lower):
        return _decimal(int(match[1]), int(match[2]))
    if match := _GEOMETRY.fullmatch(text):
        return "geometry" if match[2] is None else f"geometry({match[2]})"
    if match := _GEOGRAPHY.fullmatch(text):
        return _geography(match[2], match[3])
    raise Invalid(f"Cannot parse type string to primitive: {text}")


def _decimal(precision: int, scale: int) -> str:
    if precision > _MAX_PRECISION:
        raise Invalid(f"Decimals with precision larger than 38 are not supported: {precision}")
    return f"decimal({precision}, {scale})"


def _geography(crs: str | None, edges: str | None) -> str:
    if edges is not None and edges.lower() not in _EDGES:
        raise Invalid(f"Invalid edge interpolation algorithm: {edges}")
    if crs is None:
        return "geography"
    return f"geography({crs})" if edges is None else f"geography({crs}, {edges.lower()})"


def type_name(value: Json) -> str:
    """The name of a type without its parameters: decimal, fixed, geometry, struct."""
    if isinstance(value, dict):
        return str(value.get("type"))
    return re.split(r"[\[(]", str(value), maxsplit=1)[0]


def is_primitive(value: Json) -> bool:
    """Whether a table can be partitioned or sorted by a column of the type."""
    return isinstance(value, str) and value != "variant"


def needs_v3(value: Json) -> bool:
    """Whether tables below format version 3 cannot have the type."""
    return type_name(value) in _SINCE_V3


def normalized(value: Json) -> str:
    """A primitive type with the defaults of geometry written out: equal types have equal texts."""
    text = str(value)
    if match := _GEOMETRY.fullmatch(text):
        return f"geometry({(match[2] or _CRS).upper()})"
    if match := _GEOGRAPHY.fullmatch(text):
        return f"geography({(match[2] or _CRS).upper()}, {match[3] or 'spherical'})"
    return text
