"""Default values of columns in Iceberg's JSON form of single values."""

import re
from collections.abc import Callable
from datetime import date, time
from decimal import Decimal, InvalidOperation

from arco.core.errors import Invalid
from arco.core.json import Json
from arco.iceberg.engine import shape
from arco.iceberg.engine.field_type import type_name
from arco.iceberg.engine.shape import Object

KEYS = ("initial-default", "write-default")

_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_HEX = re.compile(r"([0-9a-fA-F]{2})*")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_TIME = re.compile(r"\d\d:\d\d(:\d\d(\.\d{1,9})?)?")
_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d{1,4})?")


def read_defaults(field: Object, kind: Json, what: str) -> Object:
    """`field` with its defaults checked against its type, without null ones."""
    field = shape.without_nulls(field, *KEYS)
    for key in KEYS:
        if key in field:
            value = read_value(kind, field[key], f"{key} of {what}")
            field = {**field, key: value}
    return field


def read_value(kind: Json, value: Json, what: str) -> Json:
    """`value` as a single value of the type `kind`, or `Invalid`."""
    if not isinstance(kind, str):
        raise Invalid(f"Invalid default value for {what}: a nested type has none but null")
    reader = _READERS.get(type_name(kind))
    if reader is None:
        raise Invalid(f"Invalid default value for {what}: {kind} has none but null")
    try:
        return reader(kind, value)
    except (ValueError, TypeError, InvalidOperation) as problem:
        raise Invalid(f"Cannot parse default as a {kind} value: {what}") from problem


def _boolean(_: str, value: Json) -> Json:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _integer(kind: str, value: Json) -> Json:
    return shape.as_int(value, kind) if kind == "int" else shape.as_long(value, kind)


def _float(_: str, value: Json) -> Json:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError
    return float(value)  # readers expect a decimal point


def _text(value: Json) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _decimal(kind: str, value: Json) -> Json:
    text = _text(value)
    if not _NUMBER.fullmatch(text):
        raise ValueError
    scale = int(kind.rstrip(")").rpartition(",")[2])
    if Decimal(text).as_tuple().exponent != -scale:
        raise ValueError
    return text


def _uuid(_: str, value: Json) -> Json:
    if not _UUID.fullmatch(_text(value)):
        raise ValueError
    return value


def _date(_: str, value: Json) -> Json:
    text = _text(value)
    if not _DATE.fullmatch(text):
        raise ValueError
    date.fromisoformat(text)
    return text


def _time(_: str, value: Json) -> Json:
    text = _text(value)
    if not _TIME.fullmatch(text):
        raise ValueError
    time.fromisoformat(text)
    return text


def _timestamp(kind: str, value: Json) -> Json:
    text = _text(value)
    day, _, rest = text.partition("T")
    clock, zone = rest, ""
    for utc in ("Z", "+00:00"):
        if rest.endswith(utc):
            clock, zone = rest.removesuffix(utc), utc
    if bool(zone) != kind.startswith("timestamptz"):
        raise ValueError
    _date(kind, day)
    _time(kind, clock)
    return text


def _binary(kind: str, value: Json) -> Json:
    text = _text(value)
    length = len(text) // 2 if kind == "binary" else int(kind[len("fixed[") : -1])
    if not _HEX.fullmatch(text) or len(text) != 2 * length:
        raise ValueError
    return text


_READERS: dict[str, Callable[[str, Json], Json]] = {
    "boolean": _boolean,
    "int": _integer,
    "long": _integer,
    "float": _float,
    "double": _float,
    "decimal": _decimal,
    "string": lambda _, value: _text(value),
    "uuid": _uuid,
    "date": _date,
    "time": _time,
    "timestamp": _timestamp,
    "timestamptz": _timestamp,
    "timestamp_ns": _timestamp,
    "timestamptz_ns": _timestamp,
    "fixed": _binary,
    "binary": _binary,
}
