"""`kill -9` of a run and its JVM at every point, for each format and way of writing: rows are counted.

All assets are killed together: each waits at the kill point until all have reached it.
"""

from dataclasses import dataclass

import pytest

from tests.figures import Figure
from tests.flow.faults.audit import ENDED, left_over, rows_at
from tests.flow.faults.kill_points import KillPoint
from tests.flow.faults.pipeline import FIRST, MADE, SECOND, TOTAL, Rows, rows_after
from tests.flow.faults.project_root import CommandResult, ProjectRoot

KILLED = -9


@dataclass(frozen=True)
class KillResult:
    """The state after a kill and an ordinary run."""

    rows: Rows
    second: CommandResult
    tasks: dict[str, int]  # by status
    executions: dict[str, int]


class Kills:
    """One kill for each point, for all tests."""

    def __init__(self, place: ProjectRoot) -> None:
        self._place = place
        self._done: dict[KillPoint, KillResult] = {}

    def at(self, point: KillPoint) -> KillResult:
        if point not in self._done:
            self._place.restore()
            self._done[point] = killed(self._place, point, MADE)
        return self._done[point]


@pytest.fixture(scope="module")
def kills(seeded: ProjectRoot) -> Kills:
    return Kills(seeded)


def killed(place: ProjectRoot, point: KillPoint, tables: tuple[str, ...]) -> KillResult:
    """Kill a run of the second day, let another one go on, and look."""
    first = place.run_killed(point, tables, *tables, TOTAL, partitions=SECOND)
    assert first.code == KILLED, f"{first.code} {first.errors[-2_000:]}"
    second = place.run(*tables, TOTAL, partitions=SECOND, also=("--parallel", "3"))
    assert second.code == 0, second.errors[-2_000:]
    runs = [first.output.strip(), second.document()["run_id"]]
    assert left_over(place.root, runs) == {}
    return KillResult(
        rows_at(place.root), second, _statuses(place, "tasks"), _statuses(place, "executions")
    )


def _statuses(place: ProjectRoot, table: str) -> dict[str, int]:
    counts = place.sql(f"SELECT status, count(*) AS n FROM system.{table} GROUP BY status")
    return {row["status"]: row["n"] for row in counts}


def _wanted(tables: tuple[str, ...]) -> Rows:
    return rows_after([FIRST, SECOND], tables)


def _check_rows(rows_by_table: Rows, tables: tuple[str, ...], wanted: Rows) -> None:
    for table in tables:
        rows = rows_by_table[table]
        assert len(rows) == len(set(rows)), f"{table} has rows twice"
        assert (len(rows), sum(row[2] for row in rows)) == (
            len(wanted[table]),
            sum(row[2] for row in wanted[table]),
        ), table
        assert rows == wanted[table], table


@pytest.mark.interop
def test_an_undisturbed_run_makes_the_expected_rows(seeded: ProjectRoot) -> None:
    seeded.restore()
    assert seeded.run(partitions=SECOND, also=("--parallel", "3")).code == 0
    rows_by_table = rows_at(seeded.root)
    _check_rows(rows_by_table, MADE, _wanted(MADE))
    assert rows_by_table[TOTAL] == rows_after([SECOND], [TOTAL])[TOTAL]


@pytest.mark.interop
@pytest.mark.parametrize("point", KillPoint)
def test_a_kill_loses_and_doubles_no_row(point: KillPoint, kills: Kills, figure: Figure) -> None:
    after = kills.at(point)
    _check_rows(after.rows, MADE, _wanted(MADE))
    assert after.rows[TOTAL] == rows_after([SECOND], [TOTAL])[TOTAL]
    counts = ", ".join(f"{each} {len(after.rows[each])}" for each in MADE)
    figure(f"kill {point}: gone on in {after.second.seconds:.0f} s; rows: {counts}")


@pytest.mark.interop
@pytest.mark.parametrize("point", KillPoint)
def test_a_kill_leaves_no_task_and_no_run_behind(point: KillPoint, kills: Kills) -> None:
    after = kills.at(point)
    assert set(after.tasks) <= ENDED
    assert set(after.executions) <= {"SUCCESS", "FAILED"}
    assert after.executions["SUCCESS"] == 2
    assert after.executions["FAILED"] == 1


@pytest.mark.interop
@pytest.mark.parametrize("point", [KillPoint.DURING_WRITE, KillPoint.AFTER_STAGE])
def test_a_kill_while_tables_are_created_loses_and_doubles_nothing(
    point: KillPoint, place: ProjectRoot, jar: None
) -> None:
    after = killed(place, point, MADE)
    _check_rows(after.rows, MADE, rows_after([SECOND], MADE))


@pytest.mark.interop
def test_partitions_of_one_table_that_are_published_at_one_moment_all_land(
    place: ProjectRoot, jar: None
) -> None:
    for form in ("iceberg", "parquet"):
        both = (f"made.{form}_append", f"made.{form}_replace_partition")
        run_command = place.together(4, *both, partitions=f"{FIRST}..{SECOND}")
        assert run_command.code == 0, run_command.errors[-2_000:]
        _check_rows(rows_at(place.root, both), both, rows_after([FIRST, SECOND], both))
