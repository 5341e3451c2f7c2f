"""Reads JSON from clients and files: each member as the type it must have, or `Invalid` with the reason.

All client input goes through here, so a wrong type is an error message and never a crash. `label` names
the value in the message.
"""

from arco.core.errors import Invalid
from arco.core.json import Json

Object = dict[str, Json]

_MAX_INT = 2**31 - 1  # Iceberg's ids are 32 bits wide
_MAX_LONG = 2**63 - 1  # snapshot ids, times and row ids are 64 bits wide


def as_object(value: Json, label: str) -> Object:
    """`value`, which must be a JSON object."""
    if not isinstance(value, dict):
        raise Invalid(f"{label} must be an object, not {kind(value)}")
    return value


def member(value: Json, name: str) -> Json:
    """A member of a JSON object; None if it has none, or is no object."""
    return value.get(name) if isinstance(value, dict) else None


def as_list(value: Json, label: str) -> list[Json]:
    """`value`, which must be a JSON array."""
    if not isinstance(value, list):
        raise Invalid(f"{label} must be an array, not {kind(value)}")
    return value


def as_text(value: Json, label: str) -> str:
    """`value`, which must be a string."""
    if not isinstance(value, str):
        raise Invalid(f"{label} must be a string, not {kind(value)}")
    return value


def as_long(value: Json, label: str) -> int:
    """`value`, which must be a whole number of at most 64 bits."""
    return _bounded_integer(value, label, _MAX_LONG)


def as_int(value: Json, label: str) -> int:
    """`value`, which must be a whole number of at most 32 bits."""
    return _bounded_integer(value, label, _MAX_INT)


def obj(holder: Object, key: str, label: str) -> Object:
    """The object under `key`."""
    return as_object(_member(holder, key, label), f"{key} of {label}")


def array(holder: Object, key: str, label: str) -> list[Json]:
    """The array under `key`."""
    return as_list(_member(holder, key, label), f"{key} of {label}")


def objects(holder: Object, key: str, label: str) -> list[Object]:
    """The array of objects under `key`."""
    return [as_object(item, f"each of {key} of {label}") for item in array(holder, key, label)]


def text(holder: Object, key: str, label: str) -> str:
    """The string under `key`."""
    return as_text(_member(holder, key, label), f"{key} of {label}")


def integer(holder: Object, key: str, label: str) -> int:
    """The 32-bit number under `key`."""
    return as_int(_member(holder, key, label), f"{key} of {label}")


def long(holder: Object, key: str, label: str) -> int:
    """The 64-bit number under `key`."""
    return as_long(_member(holder, key, label), f"{key} of {label}")


def flag(holder: Object, key: str, label: str) -> bool:
    """The boolean under `key`."""
    value = _member(holder, key, label)
    if not isinstance(value, bool):
        raise Invalid(f"{key} of {label} must be true or false, not {kind(value)}")
    return value


def texts(holder: Object, key: str, label: str) -> dict[str, str]:
    """The object of strings under `key`."""
    entries = obj(holder, key, label)
    return {name: as_text(value, f"{name} in {key} of {label}") for name, value in entries.items()}


def maybe_text(holder: Object, key: str, label: str) -> str | None:
    """The string under `key`, or None if there is none or null."""
    return None if holder.get(key) is None else text(holder, key, label)


def maybe_integer(holder: Object, key: str, label: str) -> int | None:
    """The 32-bit number under `key`, or None if there is none or null."""
    return None if holder.get(key) is None else integer(holder, key, label)


def maybe_long(holder: Object, key: str, label: str) -> int | None:
    """The 64-bit number under `key`, or None if there is none or null."""
    return None if holder.get(key) is None else long(holder, key, label)


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


def _member(holder: Object, key: str, label: str) -> Json:
    if key not in holder:
        raise Invalid(f"{label} lacks {key}")
    return holder[key]


def _bounded_integer(value: Json, label: str, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise Invalid(f"{label} must be a whole number, not {kind(value)}")
    if not -most - 1 <= value <= most:
        raise Invalid(f"{label} is out of range: {value}")
    return value
