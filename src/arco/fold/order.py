"""Order: what decides between two rows of Tier 2, as bytes that sort (P19).

It begins with what is causal, then come the rank and only then a time; what is left to decide between is
settled by things that say nothing, so that no two events have the same order unless they are the same.
Orders are made for many events at once.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Integers = npt.NDArray[np.int64]
Moments = npt.NDArray[np.void]  # of `_MOMENT`

_ID_BYTES, _DIGEST_BYTES = 26, 8
_MOMENT = np.dtype(
    [
        ("at", ">u8"),
        ("sequence", ">u8"),
        ("event_id", f"S{_ID_BYTES}"),
        ("digest", f"V{_DIGEST_BYTES}"),
    ]
)
_ORDER = np.dtype([("sticky", "u1"), ("causal", ">u8"), ("rank", "u1"), ("moment", _MOMENT)])
_EPOCH = np.uint64(1 << 63)  # so that times before 1970 sort below those after it


def moments(
    at_us: Integers, sequences: Sequence[int], event_ids: Sequence[str], digests: Sequence[bytes]
) -> Moments:
    """The part of an order that all that one event says has in common.

    `at_us` is the earlier of when it occurred and when we received it; a digest is the SHA-256 of all that
    the event says.
    """
    made = np.empty(len(at_us), _MOMENT)
    made["at"] = at_us.view(np.uint64) + _EPOCH
    made["sequence"] = sequences
    made["event_id"] = [each.encode() for each in event_ids]
    every = np.frombuffer(b"".join(digests), _MOMENT["digest"])
    made["digest"] = every.reshape(len(made), -1)[:, 0]  # of each, the first bytes
    return made


def orders(
    of: Moments,
    causal: int | Sequence[int] = 0,
    rank: int | Sequence[int] = 0,
    sticky: int | Sequence[int] = 0,
    *,
    beneath: bool | Sequence[bool] = False,
) -> pa.Array:
    """The orders of what some events say.

    `sticky` lifts above every `causal`: a cancel above all attempts, a published success above a cancel.
    `causal` is an attempt, a published version or a generation. What is `beneath` lies below all others of
    its rank, whatever their times: a claim below what was seen.
    """
    made = np.empty(len(of), _ORDER)
    made["sticky"], made["causal"], made["rank"], made["moment"] = sticky, causal, rank, of
    made["moment"]["at"] -= np.where(beneath, _EPOCH, np.uint64(0))
    ends = np.arange(0, made.nbytes + 1, _ORDER.itemsize, dtype=np.int32)
    return pa.Array.from_buffers(
        pa.binary(), len(made), [None, pa.py_buffer(ends), pa.py_buffer(made)]
    )
