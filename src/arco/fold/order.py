"""Order: what decides between two rows of Tier 2, as bytes that sort (P19).

It begins with what is causal, then come the rank and only then a time; what is left to decide between is
settled by things that say nothing, so that no two events have the same order unless they are the same.
"""

import struct
from functools import lru_cache

_STANDING = struct.Struct(">BQB")
_MOMENT = struct.Struct(">QQ26s8s")
_EPOCH = 1 << 63  # so that times before 1970 sort below those after it


def order_of(
    *,
    at_us: int,
    event_id: str,
    digest: bytes,
    sequence: int = 0,
    causal: int = 0,
    rank: int = 0,
    sticky: int = 0,
) -> bytes:
    """The order of what one event says.

    `sticky` lifts above every `causal`: a cancel above all attempts, a published success above a cancel.
    `causal` is an attempt, a published version or a generation. `at_us` is the earlier of when it occurred
    and when we received it. `digest` is a SHA-256 of all that the event says.
    """
    return standing(causal, rank, sticky) + moment(at_us, sequence, event_id, digest)


@lru_cache(4096)
def standing(causal: int, rank: int, sticky: int) -> bytes:
    """The part of an order that decides first; most events share theirs with many others."""
    return _STANDING.pack(sticky, causal, rank)


def moment(at_us: int, sequence: int, event_id: str, digest: bytes) -> bytes:
    """The part of an order that all that one event says has in common."""
    return _MOMENT.pack(at_us + _EPOCH, sequence, event_id.encode(), digest[:8])
