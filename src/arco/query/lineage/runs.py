"""Which runs have shown an edge: those of `edge_observations`, newest first.

There is a row for each run of each edge, far more than there are edges. So they are not kept in memory: the
SQL engine, which reads the files of the asked tables alone, puts them together when they are asked for.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from arco.core.errors import Invalid
from arco.query.lineage.answer import LineageRun
from arco.query.lineage.sides import EXTERNAL

MOST_TABLES = 500
_MOST_RUNS = 20  # of each edge

# By the tables as they were told, and by their names where they have no ids.
_SQL = """
SELECT source, target, execution_id, task_id, observed_at FROM (
  SELECT *, row_number() OVER (
    PARTITION BY source, target ORDER BY observed_at DESC NULLS LAST, execution_id, task_id
  ) AS place FROM (
    SELECT
      coalesce(e.source_table_id, '{external}' || coalesce(e.source_name, '')) AS source,
      CASE WHEN e.target_table_id = '' THEN '{external}' || coalesce(e.target_name, '')
        ELSE e.target_table_id END AS target,
      o.execution_id, o.task_id, max(o.observed_at) AS observed_at
    FROM system.edge_observations o
    JOIN system.lineage_edges e ON e.edge_id = o.edge_id AND e.target_table_id = o.target_table_id
    WHERE o.target_table_id IN ({targets}) AND e.target_table_id IN ({targets})
    GROUP BY 1, 2, 3, 4
  )
) WHERE place <= {most} ORDER BY source, target, place
"""


class Asked(Protocol):
    """Whoever answers SQL."""

    async def query(
        self,
        sql: str,
        *,
        as_of: str | None = None,
        freshness: str | None = None,
        caller: str | None = None,
    ) -> Any:
        """The result as an Arrow table."""


Pair = tuple[str, str]


async def runs_of(
    engine: Asked,
    targets: Iterable[str],
    *,
    as_of: str | None,
    freshness: str | None,
    caller: str | None = None,
) -> Mapping[Pair, tuple[LineageRun, ...]]:
    """The newest runs that have shown an edge into one of these tables, by source and target."""
    named = sorted({"" if each.startswith(EXTERNAL) else each for each in targets})
    if not named:
        return {}
    if len(named) > MOST_TABLES:
        raise Invalid(
            f"runs are told of at most {MOST_TABLES} tables, and this way leads to {len(named)}: "
            "ask with a smaller depth"
        )
    sql = _SQL.format(external=EXTERNAL, targets=", ".join(map(_literal, named)), most=_MOST_RUNS)
    answer = await engine.query(sql, as_of=as_of, freshness=freshness, caller=caller)
    rows = answer.to_pylist()
    found: dict[Pair, list[LineageRun]] = {}
    for row in rows:
        run = LineageRun(
            execution_id=row["execution_id"],
            task_id=row["task_id"],
            observed_at=row["observed_at"],
        )
        found.setdefault((row["source"], row["target"]), []).append(run)
    return {pair: tuple(runs) for pair, runs in found.items()}


def _literal(text: str) -> str:
    """A text as a literal of SQL: a quote is written twice, and nothing else means anything in one."""
    return "'" + text.replace("'", "''") + "'"
