"""Reads JSON from clients and files: each member as the type it must have, or `Invalid` with the reason.

All client input goes through here, so a wrong type is an error message and never a crash. `what` names
the value in the message.
"""

from arco.core.errors import Invalid
from arco.core.json import Json

Object = dict[str, Json]

_MAX_INT = 2**31 - 1  # Iceberg's ids are 32 bits wide
_MAX_LONG = 2**63 - 1  # snapshot ids, times and row ids are 64 bits wide


def as_object(value: Json, what: str) -> Object:
    """`value`, which must be a JSON object."""
    if not isinstance(value, dict):
        raise Invalid(f"{what} must be an object, not {kind(value)}")
    return value


def as_list(value: Json, what: str) -> list[Json]:
    """`value`, which must be a JSON array."""
    if not isinstance(value, list):
        raise Invalid(f"{what} must be an array, not {kind(value)}")
    return value


def as_text(value: Json, what: str) -> str:
    """`value`, which must be a string."""
    if not isinstance(value, str):
        raise Invalid(f"{what} must be a string, not {kind(value)}")
    return value


def as_long(value: Json, what: str) -> int:
    """`value`, which must be a whole number of at most 64 bits."""
    return _bounded_integer(value, what, _MAX_LONG)


def as_int(value: Json, what: str) -> int:
    """`value`, which must be a whole number of at most 32 bits."""
    return _bounded_integer(value, what, _MAX_INT)


def obj(holder: Object, key: str, what: str) -> Object:
    """The object under `key`."""
    return as_object(_member(holder, key, what), f"{key} of {what}")


def array(holder: Object, key: str, what: str) -> list[Json]:
    """The array under `key`."""
    return as_list(_member(holder, key, what), f"{key} of {what}")


def objects(holder: Object, key: str, what: str) -> list[Object]:
    """The array of objects under `key`."""
    return [as_object(item, f"each of {key} of {what}") for item in array(holder, key, what)]


def text(holder: Object, key: str, what: str) -> str:
    """The string under `key`."""
    return as_text(_member(holder, key, what), f"{key} of {what}")


def integer(holder: Object, key: str, what: str) -> int:
    """The 32-bit number under `key`."""
    return as_int(_member(holder, key, what), f"{key} of {what}")


def long(holder: Object, key: str, what: str) -> int:
    """The 64-bit number under `key`."""
    return as_long(_member(holder, key, what), f"{key} of {what}")


def flag(holder: Object, key: str, what: str) -> bool:
    """The boolean under `key`."""
    value = _member(holder, key, what)
    if not isinstance(value, bool):
        raise Invalid(f"{key} of {what} must be true or false, not {kind(value)}")
    return value


def texts(holder: Object, key: str, what: str) -> dict[str, str]:
    """The object of strings under `key`."""
    entries = obj(holder, key, what)
    return {name: as_text(value, f"{name} in {key} of {what}") for name, value in entries.items()}


def maybe_text(holder: Object, key: str, what: str) -> str | None:
    """The string under `key`, or None if there is none or null."""
    return None if holder.get(key) is None else text(holder, key, what)


def maybe_integer(holder: Object, key: str, what: str) -> int | None:
    """The 32-bit number under `key`, or None if there is none or null."""
    return None if holder.get(key) is None else integer(holder, key, what)


def maybe_long(holder: Object, key: str, what: str) -> int | None:
    """The 64-bit number under `key`, or None if there is none or null."""
    return None if holder.get(key) is None else long(holder, key, what)


def without_nulls(holder: Object, *keys: str) -> Object:
    """`holder` without null values under `keys`: some readers reject a null."""
    if all(key not in holder or holder[key] is not None for key in keys):
        return holder
    return {k: value for k, value in holder.items() if value is not None or k not in keys}


def kind(value: Json) -> str:
    """The JSON type of `value`, for messages."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int | float):
        return f"the number {value}"
    return {str: "a string", list: "an array", dict: "an object"}[type(value)]


def _member(holder: Object, key: str, what: str) -> Json:
    if key not in holder:
        raise Invalid(f"{what} lacks {key}")
    return holder[key]


def _bounded_integer(value: Json, what: str, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise Invalid(f"{what} must be a whole number, not {kind(value)}")
    if not -most - 1 <= value <= most:
        raise Invalid(f"{what} is out of range: {value}")
    return value
