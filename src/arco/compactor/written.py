"""Files that this process has written lately, so that it need not read them back.

They never change, and their bytes were durable before they were kept. Keyed by hash, not by path: a
restored bucket may reuse paths (P29).
"""

from collections import OrderedDict

_ROOM_BYTES = 32 * 1024 * 1024
_LARGEST_BYTES = 1024 * 1024


class WrittenFiles:
    """The bytes of small files by their sha256; the least used ones leave when the room is full."""

    def __init__(self, room_bytes: int = _ROOM_BYTES) -> None:
        self._room_bytes = room_bytes
        self._used_bytes = 0
        self._kept: OrderedDict[str, bytes] = OrderedDict()

    def keep(self, sha256: str, raw: bytes) -> None:
        """This file is durable."""
        if len(raw) > _LARGEST_BYTES or sha256 in self._kept:
            return
        self._kept[sha256] = raw
        self._used_bytes += len(raw)
        while self._used_bytes > self._room_bytes:
            self._used_bytes -= len(self._kept.popitem(last=False)[1])

    def find(self, sha256: str) -> bytes | None:
        """The bytes of a file, if they are still kept."""
        raw = self._kept.get(sha256)
        if raw is not None:
            self._kept.move_to_end(sha256)
        return raw
