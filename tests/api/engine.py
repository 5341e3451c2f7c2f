"""An engine that answers one query: what the API does with a result is the same for every engine."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from arco.core.errors import Invalid
from arco.query.ledger_tail import LedgerTail
from arco.query.system_tables import DomainTable

ANSWERED = "SELECT everything"


class OneAnswer:
    """Fills the seam with a table of every kind of value."""

    def __init__(self, reader: object) -> None:
        self._reader = reader

    async def query(
        self,
        sql: str,
        *,
        as_of: str | None = None,
        freshness: str | None = None,
        caller: str | None = None,
    ) -> Any:
        if sql != ANSWERED:
            raise Invalid("not a query that is known here")
        moment = datetime(2026, 1, 31, 12, tzinfo=UTC)
        return pa.table(
            {
                "number": pa.array([1, None], pa.int64()),
                "text": pa.array(["a", "b"]),
                "precise": pa.array([Decimal("1.50"), None], pa.decimal128(10, 2)),
                "at": pa.array([moment, None], pa.timestamp("us", "UTC")),
                "fine": pa.array([1_000_000_001, None], pa.timestamp("ns")),
                "raw": pa.array([b"\x00\xff", None], pa.binary()),
                "ratio": pa.array([float("nan"), 0.5], pa.float64()),
                "tags": pa.array([["x"], []], pa.list_(pa.string())),
            }
        )

    async def tail_rows(
        self, tail: LedgerTail, state: DomainTable, *, caller: str | None = None
    ) -> Any:
        """None are known here."""
        return state.table.schema.empty_table()

    async def close(self) -> None:
        """Nothing was started."""
