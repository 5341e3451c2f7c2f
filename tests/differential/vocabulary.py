"""The few things that histories are about."""

from datetime import UTC, datetime, timedelta, timezone
from functools import cache
from random import Random
from typing import Any

import msgspec
from msgspec import inspect

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
RECEIVED_BY = NOON + timedelta(hours=3)  # when the ledger is written, and everything has happened

EXECUTIONS = ("run-1", "run-2", "run-3")
TASKS = ("load", "report")
TABLES = ("tbl-a", "tbl-b")
VALUES: tuple[dict[str, str], ...] = (
    {"date": "2026-05-01"},
    {"region": "eu", "date": "2026-05-02"},
    {"path": "50%/x=y"},
    {},
)
KEYS = ("date=2026-05-01", "region=eu/date=2026-05-02", "date=2026-05-02/region=eu", "no names")
PARTITION_IDS = ("own-1", "own-2")
# A line that no layout has, so that its row is the same in all.
ELSEWHERE = "01M7FVEX5ZQ4SN3QGY2E97DMKR"

PLAIN = ("a", "b", "date=1", "b=1/a=2", "å/%", "日本")
MOMENTS = tuple(
    moment.isoformat()
    for moment in (
        datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=2))),
        datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
        NOON,
        NOON + timedelta(microseconds=1),
        (NOON + timedelta(seconds=1)).astimezone(timezone(timedelta(hours=-5))),
        datetime(9999, 12, 31, 23, 59, 59, tzinfo=timezone(timedelta(hours=-2))),
    )
)

# By the name of a field; the others are whatever their type allows.
NAMED: dict[str, tuple[Any, ...]] = {
    "execution_id": EXECUTIONS,
    "task_id": TASKS,
    "table_id": TABLES,
    "source_table_id": TABLES,
    "target_table_id": TABLES,
    "partition_values": VALUES,
    "partition_key": KEYS,
    "partition_id": PARTITION_IDS,
    "attempt": (1, 2, 3),
    "generation": (0, 0, 1),
    "version": (0, 1, 2),
    "published_version": (0, 1, 2),
    "stream": (ELSEWHERE,),
    "segment": (0, 1),
    "line": (1, 2),
}


_OFTEN = 0.6  # how often a field is there that need not be
_MOST = 3  # items of a list


def payload_of(rng: Random, payload: type[msgspec.Struct]) -> dict[str, Any]:
    """A payload as it is sent; some are refused for what no type can say."""
    return _struct(rng, _struct_type(payload))


@cache
def _struct_type(payload: type[msgspec.Struct]) -> inspect.StructType:
    struct_type = inspect.type_info(payload)
    assert isinstance(struct_type, inspect.StructType)
    return struct_type


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
