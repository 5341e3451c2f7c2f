"""The partitions of tables as they are recorded, in columns."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from arco.flow.read.asking import FRESH, Engine, among, literal, milliseconds
from arco.flow.state import TableState

MOST_ROWS = 99_000  # of one answer; the engine gives some more
MOST_TABLES = 1_000  # that one question names

_COLUMNS = (
    "table_id",
    "coalesce(partition_key, '') AS key",
    "coalesce(status, 'PENDING') AS status",
    "materialization_id",
    "input_fingerprint",
    "code_fingerprint",
    f"{milliseconds('last_successful_run')} AS made_at_ms",
)


@dataclass(frozen=True)
class Recorded:
    """Some rows of one table."""

    table_id: str
    rows: pa.Table

    def state(self, table: TableState) -> TableState:
        """What is known of the table, with these rows."""
        return msgspec.structs.replace(
            table,
            keys=self._values("key"),
            statuses=self._values("status"),
            materials=self._values("materialization_id"),
            input_fingerprints=self._values("input_fingerprint"),
            code_fingerprints=self._values("code_fingerprint"),
            made_at_ms=self._values("made_at_ms"),
        )

    def _values(self, column: str) -> tuple[str, ...]:
        return tuple(self.rows.column(column).to_pylist())


async def recorded(engine: Engine, table_ids: Sequence[str]) -> dict[str, Recorded]:
    """The rows of each table that has any. One question is enough unless there are very many."""
    parts: list[pa.Table] = []
    for start in range(0, len(table_ids), MOST_TABLES):
        parts += await _pages(engine, among("table_id", table_ids[start : start + MOST_TABLES]))
    if not parts:
        return {}
    return {each.table_id: each for each in _by_table(pa.concat_tables(parts))}


async def _pages(engine: Engine, where: str) -> list[pa.Table]:
    """All rows by table and key, so many at a time; each part is of its own moment."""
    parts: list[pa.Table] = []
    behind = ""
    while True:
        page = await engine.query(
            f"SELECT {', '.join(_COLUMNS)} FROM system.partitions WHERE {where}{behind} "  # noqa: S608
            f"ORDER BY 1, 2 LIMIT {MOST_ROWS}",
            freshness=FRESH,
        )
        parts.append(page)
        if page.num_rows < MOST_ROWS:
            return parts
        table_id, key = (literal(page.column(name)[-1].as_py()) for name in ("table_id", "key"))
        after = f"coalesce(partition_key, '') > {key}"
        behind = f" AND (table_id > {table_id} OR (table_id = {table_id} AND {after}))"


def _by_table(rows: pa.Table) -> Iterator[Recorded]:
    """Rows that are sorted by table, table by table, without looking at each."""
    if not rows.num_rows:
        return
    runs = pc.run_end_encode(rows.column("table_id").combine_chunks())
    start = 0
    for table_id, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
        yield Recorded(table_id, rows.slice(start, end - start))
        start = end
