"""Payloads by chance: whatever the type of a payload allows, from so few words that events are often about
the same thing."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import msgspec
from hypothesis import strategies as st
from msgspec import inspect

WORDS = ("a", "b", "date=1", "b=1/a=2", "å/%")
MOMENTS = tuple(
    moment.isoformat()
    for moment in (
        datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=2))),
        datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
        datetime(2026, 5, 1, 12, tzinfo=UTC),
        datetime(2026, 5, 1, 12, 0, 1, tzinfo=timezone(timedelta(hours=-5))),
        datetime(9999, 12, 31, 23, 59, 59, tzinfo=timezone(timedelta(hours=-2))),
    )
)


def payloads(payload: type[msgspec.Struct]) -> st.SearchStrategy[dict[str, Any]]:
    """Payloads as they are sent; some are refused for what no type can say."""
    struct_type = inspect.type_info(payload)
    assert isinstance(struct_type, inspect.StructType)
    return _struct(struct_type)


def _struct(kind: inspect.StructType) -> st.SearchStrategy[dict[str, Any]]:
    needed = {each.encode_name: _value(each.type) for each in kind.fields if each.required}
    others = {each.encode_name: _value(each.type) for each in kind.fields if not each.required}
    return st.fixed_dictionaries(needed, optional=others)


def _value(kind: inspect.Type) -> st.SearchStrategy[Any]:
    match kind:
        case inspect.StructType():
            return _struct(kind)
        case inspect.UnionType():
            return st.one_of([_value(each) for each in kind.types])
        case inspect.LiteralType():
            return st.sampled_from(kind.values)
        case inspect.VarTupleType():
            return st.lists(_value(kind.item_type), max_size=2)
        case inspect.DictType():
            return st.dictionaries(_value(kind.key_type), _value(kind.value_type), max_size=2)
        case inspect.IntType():
            return st.sampled_from((kind.ge or 0, 1, 2, min(kind.le or 9, 2**53)))
        case _:
            return _PLAIN[type(kind)]


_PLAIN: dict[type[inspect.Type], st.SearchStrategy[Any]] = {
    inspect.StrType: st.sampled_from(WORDS),
    inspect.BoolType: st.booleans(),
    inspect.FloatType: st.sampled_from((0.5, 1e300)),
    inspect.DateTimeType: st.sampled_from(MOMENTS),
    inspect.NoneType: st.none(),
}
