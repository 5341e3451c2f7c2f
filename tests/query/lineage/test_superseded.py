"""An edge is shown only while some partition of its target was last written by a run that showed it."""

from datetime import timedelta

import pytest

from arco.fold.tier2 import EXECUTIONS_DOMAIN, PARTITIONS
from tests.query.lineage.lineage_workspace import World, affected, pairs, world
from tests.query.published import Publishing
from tests.query.random_events import NOON


async def _columns(space: World, target: str, **asked: str) -> list[str]:
    """The column edges into a table, by the names of both columns."""
    lineage = await space.walk(target, direction="up", columns=True, **asked)
    return [
        f"{edge.source_column}->{edge.target_column}"
        for pair in lineage.edges
        for edge in pair.columns
    ]


async def _x_then_y(space: World) -> None:
    """Two runs write all of b: the first reads a.x, the second a.y instead."""
    await space.observe("a", "b", space.edge("a.x", "b.u"))
    await space.wrote("b")
    await space.observe("a", "b", space.edge("a.y", "b.u"))
    await space.wrote("b")


@pytest.mark.parametrize("freshness", [None, "fresh"])
async def test_an_edge_goes_when_the_table_is_written_by_a_run_without_it(
    freshness: str | None,
) -> None:
    async with world("a(x, y)", "b(u)", "c(w)") as space:
        await _x_then_y(space)
        await space.observe("b", "c", space.edge("b.u", "c.w"))
        if freshness is None:
            await space.publish()
        asked = {} if freshness is None else {"freshness": freshness}
        assert await _columns(space, "b", **asked) == ["y->u"]
        assert affected(await space.impact("a", "x", **asked)) == {}
        assert affected(await space.impact("a", "y", **asked)) == {
            "b.u": ("value", 1),
            "c.w": ("value", 2),
        }


async def test_a_table_that_is_no_longer_read_goes_with_all_its_edges() -> None:
    async with world("a(x)", "z(x)", "b(u)") as space:
        await space.observe(["a", "z"], "b", space.edge("a.x", "b.u"), space.edge("z.x", "b.u"))
        await space.wrote("b")
        await space.observe("a", "b", space.edge("a.x", "b.u"))
        await space.wrote("b")
        await space.publish()
        assert pairs(await space.walk("b")) == [("a", "b")]
        assert pairs(await space.walk("z")) == []


async def test_an_edge_stays_while_one_partition_has_it() -> None:
    async with world("a(x, y)", "b(u)") as space:
        for partition in ("d=1", "d=2"):
            await space.observe("a", "b", space.edge("a.x", "b.u"))
            await space.wrote("b", space.seen, partition)
        await space.observe("a", "b", space.edge("a.y", "b.u"))
        await space.wrote("b", 3, "d=2")
        await space.publish()
        # The run that showed it last has written nothing that is still there; one before has.
        assert await _columns(space, "b") == ["x->u", "y->u"]
        await space.wrote("b", 3, "d=1")
        await space.publish()
        assert await _columns(space, "b") == ["y->u"]


async def test_an_edge_comes_back_with_a_run_that_shows_it_and_the_past_stays_as_it_was() -> None:
    async with world("a(x, y)", "b(u)") as space:
        await space.observe("a", "b", space.edge("a.x", "b.u"))
        await space.wrote("b")
        await space.publish()
        await space.observe("a", "b", space.edge("a.y", "b.u"))
        await space.wrote("b")
        await space.publish()
        assert await _columns(space, "b") == ["y->u"]
        assert await _columns(space, "b", as_of="0") == ["x->u"]
        [pair] = (await space.walk("b", runs=True)).edges
        assert {run.execution_id for run in pair.runs} == {"run-1", "run-2"}
        await space.observe("a", "b", space.edge("a.x", "b.u"))
        await space.wrote("b")
        await space.publish()
        assert await _columns(space, "b") == ["x->u"]


async def test_nothing_is_hidden_where_no_partition_is_recorded() -> None:
    async with world("a(x, y)", "b(u)") as space:
        await space.observe("a", "b", space.edge("a.x", "b.u"))
        await space.observe("a", "b", space.edge("a.y", "b.u"))
        await space.publish()
        assert await _columns(space, "b") == ["x->u", "y->u"]


async def test_nothing_is_hidden_while_a_writer_has_recorded_no_lineage() -> None:
    async with world("a(x, y)", "b(u)") as space:
        await _x_then_y(space)
        await space.wrote("b", 7)  # a run that nothing was seen of
        await space.publish()
        assert await _columns(space, "b") == ["x->u", "y->u"]


async def test_nothing_is_hidden_where_partitions_are_forgotten_by_their_age() -> None:
    async with world("a(x, y)", "b(u)") as space:
        await _x_then_y(space)
        await space.publish()
        assert await _columns(space, "b") == ["y->u"]
        bounds = {PARTITIONS.name: NOON - timedelta(days=9)}
        await Publishing(space.workspace, EXECUTIONS_DOMAIN).tail(retained_from=bounds)
        assert await _columns(space, "b") == ["x->u", "y->u"]


async def test_a_run_that_does_not_know_the_columns_hides_none_of_what_it_read() -> None:
    async with world("a(x)", "z(x)", "b(u)") as space:
        await space.observe(["a", "z"], "b", space.edge("a.x", "b.u"), space.edge("z.x", "b.u"))
        await space.wrote("b")
        await space.observe("a", "b")  # from table to table
        await space.wrote("b")
        await space.publish()
        assert await _columns(space, "b") == ["x->u"]
        assert pairs(await space.walk("b")) == [("a", "b")]


async def test_a_run_that_fails_changes_nothing() -> None:
    async with world("a(x, y, z)", "b(u)") as space:
        await _x_then_y(space)
        await space.partition("task_started", "b", "", run=3)
        await space.publish()
        assert await _columns(space, "b") == ["y->u"]
        await space.observe("a", "b", space.edge("a.z", "b.u"))
        await space.partition("partition_failed", "b", "", run=3)
        await space.publish()
        assert await _columns(space, "b") == ["y->u"]


async def test_an_edge_is_shown_before_its_partition_is_reported() -> None:
    async with world("a(x, y)", "b(u)") as space:
        await space.observe("a", "b", space.edge("a.x", "b.u"))
        await space.wrote("b")
        await space.observe("a", "b", space.edge("a.y", "b.u"))
        await space.publish()
        assert await _columns(space, "b") == ["x->u", "y->u"]
