"""Retention: rows of which nothing new was told for long leave their table (P20)."""

from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from arco.fold.table import Table
from arco.fold.tier2 import OCCURRED


def retain(table: Table, rows: pa.Table, retained_from: datetime | None) -> pa.Table:
    """`rows` without those whose newest moment is before `retained_from`.

    They must be folded: only then is the moment in a row the newest of its key.
    """
    if retained_from is None or OCCURRED not in table.schema.names:
        return rows
    occurred = rows.column(OCCURRED)
    since = pa.scalar(retained_from, occurred.type)
    stays = pc.greater_equal(occurred, since).fill_null(fill_value=True)
    return rows if pc.all(stays).as_py() else rows.filter(stays)
