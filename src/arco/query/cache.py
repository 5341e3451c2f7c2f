"""A cache of tables by key, bounded by their bytes. What was used last stays."""

from collections import OrderedDict

import pyarrow as pa


class Cache:
    """Holds everything until it is trimmed, so that nothing leaves while a query needs it."""

    def __init__(self, room_bytes: int) -> None:
        self._room_bytes = room_bytes
        self._tables: OrderedDict[str, pa.Table] = OrderedDict()

    def get(self, key: str) -> pa.Table | None:
        """The table under a key."""
        table = self._tables.get(key)
        if table is not None:
            self._tables.move_to_end(key)
        return table

    def put(self, key: str, table: pa.Table) -> pa.Table:
        """Hold a table."""
        self._tables[key] = table
        self._tables.move_to_end(key)
        return table

    def trim(self) -> None:
        """Let go of the least used until the rest fits."""
        used = sum(table.nbytes for table in self._tables.values())
        while used > self._room_bytes:
            _, table = self._tables.popitem(last=False)
            used -= table.nbytes
