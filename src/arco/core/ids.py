"""Ids (law 11): ULIDs for events and requests, UUIDv7 for catalog objects.

Both sort by the time of their creation; only listings for people rely on that. Ids that clients send are
opaque strings and are never parsed here.
"""

import re
from typing import NewType
from uuid import UUID

from ulid import ULID

from arco.core.errors import Invalid
from arco.core.runtime import Runtime

Ulid = NewType("Ulid", str)
ObjectId = NewType("ObjectId", str)

MAX_NUMBERED = 1 << 20
NUMBERED_FROM = 22  # up to here the ULIDs of a batch are the same

_MS_BITS = 48
_DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS = [high + low for high in _DIGITS for low in _DIGITS]
_SHIFTS = range(120, -1, -10)  # of the 13 pairs of digits of a ULID
_ULID = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")


def new_ulid(runtime: Runtime) -> Ulid:
    """A fresh ULID: 26 characters of Crockford base 32."""
    bits = (_moment(runtime) << 80) | int.from_bytes(runtime.rng.randbytes(10), "big")
    return Ulid("".join([_PAIRS[bits >> shift & 1023] for shift in _SHIFTS]))


def numbered_ulid(batch: Ulid, number: int) -> Ulid:
    """The ULID of one event of a batch: that of the batch, with the number in its last 20 bits.

    60 random bits distinguish batches of the same millisecond. A repeated batch gets the same ids, and
    computing many of them is cheap.
    """
    if not 0 <= number < MAX_NUMBERED:
        raise Invalid(f"a batch has numbers from 0 to {MAX_NUMBERED - 1}, not {number}")
    return Ulid(batch[:NUMBERED_FROM] + _PAIRS[number >> 10] + _PAIRS[number & 1023])


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
    if _ULID.fullmatch(text):
        return Ulid(text)
    try:
        canonical = str(ULID.from_str(text))
    except ValueError as problem:
        raise Invalid(f"not a ULID: {text[:40]!r}") from problem
    raise Invalid(f"not a ULID in canonical form, which is {canonical}: {text[:40]!r}")


def ulid_ms(ulid: str) -> int:
    """When a ULID was minted, in milliseconds since 1970, by the clock of the process that minted it."""
    return ULID.from_str(ulid).milliseconds


def _moment(runtime: Runtime) -> int:
    return max(0, runtime.clock.now_ms()) & ((1 << _MS_BITS) - 1)
