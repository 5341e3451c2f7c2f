"""Identity (law 11): ULIDs for what happens, UUIDv7 for what is.

Both sort by the time they were minted; nothing relies on that but tidy listings. Ids that others
send us are opaque strings and are never parsed here.
"""

from typing import NewType
from uuid import UUID

from ulid import ULID

from arco.core.errors import Invalid
from arco.core.runtime import Runtime

Ulid = NewType("Ulid", str)
ObjectId = NewType("ObjectId", str)

_MS_BITS = 48


def new_ulid(runtime: Runtime) -> Ulid:
    """A fresh ULID: 26 characters of Crockford base 32."""
    moment = _moment(runtime).to_bytes(6, "big")
    return Ulid(str(ULID.from_bytes(moment + runtime.rng.randbytes(10))))


def new_object_id(runtime: Runtime) -> ObjectId:
    """A fresh UUIDv7 (RFC 9562), for catalog objects."""
    moment = _moment(runtime)
    noise = int.from_bytes(runtime.rng.randbytes(10), "big")
    bits = (moment << 80) | noise
    bits = bits & ~(0xF << 76) | (0x7 << 76)
    bits = bits & ~(0b11 << 62) | (0b10 << 62)
    return ObjectId(str(UUID(int=bits)))


def parse_ulid(text: str) -> Ulid:
    """`text` as a ULID in its one canonical spelling, or `Invalid`."""
    try:
        canonical = str(ULID.from_str(text))
    except ValueError as problem:
        raise Invalid(f"not a ULID: {text[:40]!r}") from problem
    if canonical != text:
        raise Invalid(f"not a ULID in canonical (upper-case) form: {text[:40]!r}")
    return Ulid(text)


def _moment(runtime: Runtime) -> int:
    return max(0, runtime.clock.now_ms()) & ((1 << _MS_BITS) - 1)
