"""Order keys of Tier 2 rows: bytes that sort as events outrank each other (P19).

An order starts with the causal number, then the rank, then the time. The remaining bytes carry no meaning
and only break ties, so that two events have the same order only if they are the same event. Orders are
encoded for many events at once.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Integers = npt.NDArray[np.int64]
OrderSuffixes = npt.NDArray[np.void]  # of `_SUFFIX`

_ID_BYTES, _DIGEST_BYTES = 26, 8
_SUFFIX = np.dtype(
    [
        ("at", ">u8"),
        ("sequence", ">u8"),
        ("event_id", f"S{_ID_BYTES}"),
        ("digest", f"V{_DIGEST_BYTES}"),
    ]
)
_ORDER = np.dtype([("sticky", "u1"), ("causal", ">u8"), ("rank", "u1"), ("suffix", _SUFFIX)])
_EPOCH = np.uint64(1 << 63)  # so that times before 1970 sort below those after it


def encode_order_suffixes(
    at_us: Integers, sequences: Sequence[int], event_ids: Sequence[str], digests: Sequence[bytes]
) -> OrderSuffixes:
    """The end of the orders of each event, which all columns that the event sets have in common.

    `at_us` is the earlier of when the event occurred and when it was received; a digest is the SHA-256 of
    the content of the event.
    """
    made = np.empty(len(at_us), _SUFFIX)
    made["at"] = at_us.view(np.uint64) + _EPOCH
    made["sequence"] = sequences
    made["event_id"] = [each.encode() for each in event_ids]
    every = np.frombuffer(b"".join(digests), _SUFFIX["digest"])
    made["digest"] = every.reshape(len(made), -1)[:, 0]  # the first bytes of each digest
    return made


def encode_orders(
    suffixes: OrderSuffixes,
    causal: int | Sequence[int] = 0,
    rank: int | Sequence[int] = 0,
    sticky: int | Sequence[int] = 0,
    *,
    beneath: bool | Sequence[bool] = False,
) -> pa.Array:
    """The orders of events.

    `sticky` outranks every `causal`: a cancel outranks all attempts, a published success a cancel.
    `causal` is an attempt, a published version or a generation. An event that is `beneath` sorts below all
    others of its rank whatever their times: a declaration below an observation.
    """
    made = np.empty(len(suffixes), _ORDER)
    made["sticky"], made["causal"], made["rank"], made["suffix"] = sticky, causal, rank, suffixes
    made["suffix"]["at"] -= np.where(beneath, _EPOCH, np.uint64(0))
    ends = np.arange(0, made.nbytes + 1, _ORDER.itemsize, dtype=np.int32)
    return pa.Array.from_buffers(
        pa.binary(), len(made), [None, pa.py_buffer(ends), pa.py_buffer(made)]
    )
