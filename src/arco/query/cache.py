"""A cache of tables by key, bounded by their bytes and their number. What was used last stays."""

from collections import OrderedDict

import pyarrow as pa

_MOST = 8_192


class Cache:
    """Holds everything until it is trimmed, so that nothing leaves while a query needs it."""

    def __init__(self, room_bytes: int) -> None:
        self._room_bytes = room_bytes
        self._used_bytes = 0
        self._tables: OrderedDict[str, pa.Table] = OrderedDict()

    def get(self, key: str) -> pa.Table | None:
        """The table under a key."""
        table = self._tables.get(key)
        if table is not None:
            self._tables.move_to_end(key)
        return table

    def put(self, key: str, table: pa.Table) -> pa.Table:
        """Hold a table."""
        known = self._tables.get(key)
        self._used_bytes += table.nbytes - (0 if known is None else known.nbytes)
        self._tables[key] = table
        self._tables.move_to_end(key)
        return table

    def trim(self) -> None:
        """Let go of the least used until the rest fits."""
        while self._used_bytes > self._room_bytes or len(self._tables) > _MOST:
            _, table = self._tables.popitem(last=False)
            self._used_bytes -= table.nbytes
