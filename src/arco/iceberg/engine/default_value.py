"""Default values of columns: in Iceberg's JSON form of single values, and as SQL literals."""

import re
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation

from arco.catalog.data_type import print_string, read_string, tokens
from arco.core import json
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


def read_defaults(field: Object, kind: Json, label: str) -> Object:
    """`field` with its defaults checked against its type, without null ones."""
    field = shape.without_nulls(field, *KEYS)
    for key in KEYS:
        if key in field:
            value = read_value(kind, field[key], f"{key} of {label}")
            field = {**field, key: value}
    return field


def read_value(kind: Json, value: Json, label: str) -> Json:
    """`value` as a single value of the type `kind`, or `Invalid`."""
    if not isinstance(kind, str):
        raise Invalid(f"Invalid default value for {label}: a nested type has none but null")
    reader = _READERS.get(type_name(kind))
    if reader is None:
        raise Invalid(f"Invalid default value for {label}: {kind} has none but null")
    try:
        return reader(kind, value)
    except (ValueError, TypeError, InvalidOperation) as problem:
        raise Invalid(f"Cannot parse default as a {kind} value: {label}") from problem


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


_MAX_CHARACTERS = 4_096  # of a default value in the catalog
# Keywords that may precede the quotes; the first is the one that is printed.
_KEYWORDS = {
    "date": ("DATE",),
    "time": ("TIME",),
    **dict.fromkeys(("timestamp", "timestamp_ns"), ("TIMESTAMP_NTZ", "TIMESTAMP")),
    **dict.fromkeys(("timestamptz", "timestamptz_ns"), ("TIMESTAMP", "TIMESTAMP_LTZ")),
    **dict.fromkeys(("binary", "fixed"), ("X",)),
}
_INTEGER_LITERAL = re.compile(r"[+-]?\d{1,19}")
_NUMBER_LITERAL = re.compile(r"[+-]?(?:\d{1,400}(?:\.\d{0,400})?|\.\d{1,400})(?:[eE][+-]?\d{1,3})?")
_TIME_LITERAL = re.compile(r"(\d\d:\d\d(?::\d\d)?)(?:\.(\d{1,9}))?")
_MOMENT = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d)?)(?:\.(\d{1,9}))?)?"
    r"(?:\s?(Z|UTC|[+-]\d\d:\d\d))?"
)


def print_default(kind: Json, value: Json) -> str | None:
    """A default of type `kind` as an SQL literal; None if there is none or it is too long."""
    if value is None:
        return None
    name = type_name(kind)
    if isinstance(value, str) and name != "decimal":
        text = _prefix(name) + print_string(value)
    else:
        text = value if isinstance(value, str) else _json(value)
    text = "".join(each if each.isprintable() else _escaped(each) for each in text)
    return text if len(text) <= _MAX_CHARACTERS else None


def _prefix(name: str) -> str:
    keyword = _KEYWORDS.get(name, ("",))[0]
    return f"{keyword} " if len(keyword) > 1 else keyword


def _json(value: Json) -> str:
    try:
        return json.encode(value).decode()
    except RecursionError as problem:
        raise Invalid("JSON is nested too deeply") from problem


def _escaped(letter: str) -> str:
    return f"\\u{ord(letter):04x}" if ord(letter) < 0x10000 else f"\\U{ord(letter):08x}"


def read_default(kind: Json, text: str, label: str) -> Json:
    """The literal `text` as a value of the type `kind`, or `Invalid`; NULL is None."""
    if text.strip().lower() == "null":
        return None
    try:
        read = _LITERAL_READERS.get(type_name(kind), _none)
        return read_value(kind, read(str(kind), text.strip()), label)
    except (ValueError, OverflowError) as problem:
        raise _no_literal(kind, text, label) from problem


def _no_literal(kind: Json, text: str, label: str) -> Invalid:
    shown = kind if isinstance(kind, str) else type_name(kind)
    return Invalid(f"the default of {label[:80]} is no literal of type {shown}: {text[:80]!r}")


def _none(_: str, text: str) -> Json:
    raise ValueError(text)


def _boolean_literal(_: str, text: str) -> Json:
    if text.lower() not in {"true", "false"}:
        return _none(_, text)
    return text.lower() == "true"


def _integer_literal(_: str, text: str) -> Json:
    return int(text) if _INTEGER_LITERAL.fullmatch(text) else _none(_, text)


def _float_literal(_: str, text: str) -> Json:
    value = float(text) if _NUMBER_LITERAL.fullmatch(text) else float("inf")
    return value if abs(value) < float("inf") else _none(_, text)


def _decimal_literal(kind: str, text: str) -> Json:
    """The number with the scale of the type."""
    precision, scale = (int(each) for each in re.findall(r"\d+", kind))
    if not _NUMBER_LITERAL.fullmatch(text):
        return _none(kind, text)
    value = Decimal(text)
    shown = f"{value:.{scale}f}"
    digits = len(shown.lstrip("-").replace(".", "").lstrip("0"))
    return shown if Decimal(shown) == value and digits <= precision else _none(kind, text)


def _quoted(kind: str, text: str) -> str:
    """The quoted text of a literal, with or without its keyword."""
    parsed_tokens = tokens(text)
    if parsed_tokens[0].keyword.upper() in _KEYWORDS.get(type_name(kind), ()):
        parsed_tokens = parsed_tokens[1:]
    if len(parsed_tokens) != 2 or parsed_tokens[0].kind != "string":
        raise ValueError(text)
    return read_string(parsed_tokens[0])


def _date_literal(kind: str, text: str) -> Json:
    return date.fromisoformat(_quoted(kind, text)).isoformat()


def _time_literal(kind: str, text: str) -> Json:
    match = _TIME_LITERAL.fullmatch(_quoted(kind, text))
    if match is None:
        return _none(kind, text)
    return _clock(match[1]) + _fraction(match[2], 6)


def _clock(text: str) -> str:
    """Hours, minutes and seconds, which may be missing."""
    return datetime.fromisoformat(f"2000-01-01T{text}").time().isoformat()


def _moment(kind: str, text: str) -> Json:
    match = _MOMENT.fullmatch(_quoted(kind, text))
    if match is None:
        return _none(kind, text)
    day, clock, fraction, zone = match.groups()
    moment = datetime.fromisoformat(f"{day}T{_clock(clock or '00:00')}")
    digits = _fraction(fraction, 9 if kind.endswith("_ns") else 6)
    if not kind.startswith("timestamptz"):
        return moment.isoformat() + digits if zone is None else _none(kind, text)
    return (moment - _offset(zone)).isoformat() + digits + "+00:00"


def _offset(zone: str | None) -> timedelta:
    if zone in {None, "Z", "UTC"}:
        return timedelta()
    moment = datetime.fromisoformat(f"2000-01-01T00:00{zone}")
    return moment.utcoffset() or timedelta()


def _fraction(digits: str | None, most: int) -> str:
    if digits is None or not digits.strip("0"):
        return ""
    if digits[most:].strip("0"):
        raise ValueError(digits)
    return f".{digits[:most]:0<{most}}"


def _bytes(kind: str, text: str) -> Json:
    return _quoted(kind, text).lower() if text[:1] in {"x", "X"} else _none(kind, text)


_LITERAL_READERS: dict[str, Callable[[str, str], Json]] = {
    "boolean": _boolean_literal,
    "int": _integer_literal,
    "long": _integer_literal,
    "float": _float_literal,
    "double": _float_literal,
    "decimal": _decimal_literal,
    "string": _quoted,
    "uuid": _quoted,
    "date": _date_literal,
    "time": _time_literal,
    **dict.fromkeys(("timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"), _moment),
    "binary": _bytes,
    "fixed": _bytes,
}
