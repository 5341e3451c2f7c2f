"""Rows of a table in memory that a condition in SQL holds for."""

import pyarrow as pa
from datafusion import SessionConfig, SessionContext

from arco.core.errors import Invalid
from arco.query.reason import reason_of


def matching_rows(rows: pa.Table, where: str) -> pa.Table:
    """The rows for which an SQL expression is true; it spells columns as the table does."""
    exact_names = SessionConfig().set("datafusion.sql_parser.enable_ident_normalization", "false")
    try:
        frame = SessionContext(exact_names).from_arrow(rows, name="rows").filter(where)
        return frame.to_arrow_table().cast(rows.schema)
    except Exception as problem:
        raise Invalid(
            f"--where {where!r} cannot be evaluated: {reason_of(problem)}; the columns are "
            f"{', '.join(rows.column_names)}"
        ) from problem
