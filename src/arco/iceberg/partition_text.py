"""Values of Iceberg's partitions as text: days, hours and months as people write them."""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from uuid import UUID

Written = Callable[[object], str]

NULL = "null"  # as Iceberg writes it into paths

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def written_as(transform: str) -> Written | None:
    """How values of a transform are written; None if they do not say which values they stand for."""
    return _WRITTEN.get(transform)


def _value(value: object) -> str:
    if value is None:
        return NULL
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, UUID):
        return str(value)
    return str(value)


def _day(value: object) -> str:
    if isinstance(value, int):  # days since 1970
        return (_EPOCH + timedelta(days=value)).date().isoformat()
    return _value(value)


def _hour(value: object) -> str:
    if isinstance(value, int):
        return f"{_EPOCH + timedelta(hours=value):%Y-%m-%dT%H}"
    return _value(value)


def _month(value: object) -> str:
    if isinstance(value, int):
        year, month = divmod(value, 12)
        return f"{1970 + year:04d}-{month + 1:02d}"
    return _value(value)


_WRITTEN: dict[str, Written] = {
    "identity": _value,
    "day": _day,
    "date": _day,
    "hour": _hour,
    "month": _month,
}
