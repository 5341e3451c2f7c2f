"""Drivers: what the catalog asks of a table format that rules its own metadata.

Iceberg and Delta keep columns in files of their own. Whoever serves such a format registers a driver, and
is asked before the catalog makes or changes one of its tables; without one a table is registered as it is
described.
"""

from collections.abc import Sequence
from typing import Protocol

from arco.catalog.model import ColumnRow, TableRow


class FormatDriver(Protocol):
    """The catalog's view of one table format. It refuses by raising `Invalid` with what to do instead."""

    def check_table(self, table: TableRow, columns: Sequence[ColumnRow]) -> None:
        """Whether a table may be made like this through the catalog."""

    def check_columns(self, table: TableRow, columns: Sequence[ColumnRow]) -> None:
        """Whether the columns of a table may become these through the catalog."""
