"""Payloads by chance: whatever a type allows, from so few words that events meet in rows."""

from functools import cache
from random import Random
from typing import Any

import msgspec
from msgspec import inspect

from tests.differential.words import MOMENTS, NAMED, PLAIN

_OFTEN = 0.6  # how often a field is there that need not be
_MOST = 3  # items of a list


def payload_of(rng: Random, payload: type[msgspec.Struct]) -> dict[str, Any]:
    """A payload as it is sent; some are refused for what no type can say."""
    return _struct(rng, _known(payload))


@cache
def _known(payload: type[msgspec.Struct]) -> inspect.StructType:
    found = inspect.type_info(payload)
    assert isinstance(found, inspect.StructType)
    return found


def _struct(rng: Random, kind: inspect.StructType) -> dict[str, Any]:
    return {
        each.encode_name: _field(rng, each)
        for each in kind.fields
        if each.required or rng.random() < _OFTEN
    }


def _field(rng: Random, field: inspect.Field) -> Any:
    words = NAMED.get(field.encode_name)
    if words is not None:
        return rng.choice(words)
    return _value(rng, field.type)


def _value(rng: Random, kind: inspect.Type) -> Any:
    match kind:
        case inspect.StructType():
            return _struct(rng, kind)
        case inspect.UnionType():
            return _value(rng, rng.choice(kind.types))
        case inspect.LiteralType():
            return rng.choice(kind.values)
        case inspect.VarTupleType():
            return [_value(rng, kind.item_type) for _ in range(rng.randrange(_MOST))]
        case inspect.DictType():
            return {_value(rng, kind.key_type): _value(rng, kind.value_type) for _ in range(2)}
        case inspect.IntType():
            return rng.choice((kind.ge or 0, 1, 2, 3, kind.le or 9))
        case _:
            return rng.choice(_CHOICES[type(kind)])


_CHOICES: dict[type[inspect.Type], tuple[Any, ...]] = {
    inspect.StrType: PLAIN,
    inspect.BoolType: (False, True),
    inspect.FloatType: (0.5, 1e300),
    inspect.DateTimeType: MOMENTS,
    inspect.NoneType: (None,),
}
