"""Transforms of columns into partition values and sort keys: their spelling, and what they apply to.

A transform that we do not know is taken as it is, since clients may be newer than we are.
"""

import re

from arco.core.errors import Invalid
from arco.core.json import Json
from arco.iceberg.engine.field_type import is_primitive, kind_of

VOID = "void"

_MOST_WIDTH = 2**31 - 1
_WITH_WIDTH = re.compile(r"(bucket|truncate)\[(\d+)\]", re.IGNORECASE)
_MOMENTS = frozenset({"timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"})
_DAYS = _MOMENTS | {"date"}
_CUT = frozenset({"int", "long", "string", "binary", "decimal"})
_HASHED = _CUT | _DAYS | {"time", "fixed", "uuid"}
_SOURCES = {
    "bucket": _HASHED,
    "truncate": _CUT,
    "year": _DAYS,
    "month": _DAYS,
    "day": _DAYS,
    "hour": _MOMENTS,
}
_NO_IDENTITY = frozenset({"variant", "geometry", "geography"})


def read_transform(text: str) -> str:
    """The one spelling of a transform."""
    lower = text.lower()
    if lower in {*_SOURCES, "identity", VOID}:
        return lower
    match = _WITH_WIDTH.fullmatch(text)
    if match is None:
        return text
    if len(match[2]) > 10 or not 0 < int(match[2]) <= _MOST_WIDTH:
        raise Invalid(f"the width of a transform is a positive number of 32 bits: {text}")
    return f"{match[1].lower()}[{int(match[2])}]"


def check_source(transform: str, kind: Json) -> None:
    """Refuse a transform of a column of this type that makes no sense."""
    name = transform.partition("[")[0]
    source = kind_of(kind)
    wrong = source not in _SOURCES.get(name, {source})
    if name == "identity":
        wrong = source in _NO_IDENTITY or not is_primitive(kind)
    if wrong:
        raise Invalid(f"Invalid source type {kind} for transform: {transform}")
