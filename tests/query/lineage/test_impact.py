"""What depends on a column, and how surely."""

import msgspec
import pytest

from arco.catalog.ddl import DropColumn, UpdateColumn
from arco.core.errors import NotFound
from tests.query.lineage.lineage_workspace import affected, names, world
from tests.query.workspace import table_name


async def test_values_are_followed_from_column_to_column_and_no_other() -> None:
    async with world("a(x, y)", "b(u, v)", "c(w)") as space:
        await space.observe("a", "b", space.edge("a.x", "b.u"), space.edge("a.y", "b.v"))
        await space.observe("b", "c", space.edge("b.v", "c.w", "AGGREGATE"))
        await space.publish()
        assert affected(await space.impact("a", "x")) == {"b.u": ("value", 1)}
        impact = await space.impact("a", "y")
        assert affected(impact) == {"b.v": ("value", 1), "c.w": ("value", 2)}
        called = names(impact)
        way = [
            (called[step.table_id], step.column, step.transformation)
            for step in impact.affected[1].path
        ]
        assert way == [("b", "v", "DIRECT"), ("c", "w", "AGGREGATE")]
        assert affected(await space.impact("a", "y", depth=1)) == {"b.v": ("value", 1)}
        assert affected(await space.impact("c", "w")) == {}


async def test_an_influence_reaches_every_column_of_its_target_and_what_is_made_of_them() -> None:
    async with world("a(x, y)", "b(u)", "c(w, other)") as space:
        await space.observe("a", "b", space.edge("a.x", "b.u"), space.edge("a.y", "b.*", "FILTER"))
        await space.observe("b", "c", space.edge("b.u", "c.w"))
        await space.publish()
        impact = await space.impact("a", "y")
        assert affected(impact) == {"b.*": ("influence", 1), "c.w": ("influence", 2)}
        assert [step.reach for step in impact.affected[1].path] == ["influence", "value"]
        assert affected(await space.impact("a", "x")) == {"b.u": ("value", 1), "c.w": ("value", 2)}


async def test_what_is_known_of_tables_alone_is_reached_and_marked_so() -> None:
    async with world("a(x)", "b(u)", "c(w)", "d(z)") as space:
        await space.observe("a", "b")
        await space.observe("b", "c", space.edge("b.u", "c.w"))
        await space.observe("c", "d")
        await space.publish()
        impact = await space.impact("a", "x")
        assert affected(impact) == {"b.*": ("table", 1), "c.w": ("table", 2), "d.*": ("table", 3)}
        assert [step.reach for step in impact.affected[2].path] == ["table", "value", "table"]


async def test_the_surest_path_is_shown_though_another_is_shorter() -> None:
    async with world("a(x)", "b(u)", "c(w)") as space:
        await space.observe("a", "b", space.edge("a.x", "b.u"))
        await space.observe("b", "c", space.edge("b.u", "c.w", "CASE"))
        await space.observe("a", "c", space.edge("a.x", "c.w", "JOIN"))
        await space.publish()
        assert affected(await space.impact("a", "x"))["c.w"] == ("value", 2)


async def test_cycles_of_columns_end() -> None:
    async with world("a(x)", "b(u)") as space:
        await space.observe("a", "b", space.edge("a.x", "b.u"))
        await space.observe("b", "a", space.edge("b.u", "a.x"))
        await space.observe("a", "a", space.edge("a.x", "a.*", "FILTER"))
        await space.publish()
        impact = await space.impact("a", "x")
        assert affected(impact) == {"b.u": ("value", 1), "a.*": ("influence", 1)}


async def test_a_column_that_was_renamed_or_dropped_is_found_by_the_name_it_has_or_had() -> None:
    async with world("a(x, y)", "b(u, v)") as space:
        await space.observe("a", "b", space.edge("a.x", "b.u"), space.edge("a.y", "b.v"))
        await space.publish()
        await space.workspace.do(UpdateColumn(target=table_name("s", "a"), column="x", name="now"))
        await space.workspace.do(DropColumn(target=table_name("s", "a"), column="y"))
        impact = await space.impact("a", "now")
        assert affected(impact) == {"b.u": ("value", 1)}
        assert impact.column_id == space.columns["a"]["x"]
        assert affected(await space.impact("a", "y")) == {"b.v": ("value", 1)}
        by_id = await space.impact("a", space.columns["a"]["x"])
        assert (by_id.column, affected(by_id)) == ("now", {"b.u": ("value", 1)})


async def test_columns_that_the_catalog_does_not_have_go_by_the_names_that_were_seen() -> None:
    async with world() as space:
        space.ids = {"p": "tbl-p", "q": "tbl-q"}
        space.columns = {"p": {"x": "col-x"}, "q": {"u": "col-u"}}
        await space.observe("p", "q", space.edge("p.x", "q.u"))
        await space.publish()
        [affected_column] = (await space.impact("p", "x")).affected
        assert (affected_column.table_id, affected_column.column, affected_column.column_id) == (
            "tbl-q",
            "u",
            "col-u",
        )
        assert (await space.impact("q", "u")).affected == ()


async def test_a_column_without_edges_still_depends_on_by_its_table() -> None:
    async with world("a(x, unused)", "b(u)", "c(w)") as space:
        await space.observe("a", "b", space.edge("a.x", "b.u"))
        await space.observe("a", "c")
        await space.publish()
        assert affected(await space.impact("a", "unused")) == {"c.*": ("table", 1)}
        assert (await space.impact("c", "w")).affected == ()


async def test_what_was_only_declared_says_nothing_where_columns_are_known() -> None:
    async with world("a(x, y)", "b(u)", "c(w)") as space:
        await space.observe("a", "b", space.edge("a.x", "b.u"))
        await space.observe("a", "b", soundness="declared")
        await space.observe("a", "c", soundness="declared")
        await space.publish()
        assert affected(await space.impact("a", "y")) == {"c.*": ("table", 1)}
        [first] = [edge for edge in (await space.walk("b")).edges if edge.source == space.ids["a"]]
        assert first.soundness == ("declared", "exact")


async def test_what_code_may_have_made_of_rows_that_it_was_given_counts_beside_the_columns() -> (
    None
):
    async with world("a(x, y)", "b(u)") as space:
        await space.observe("a", "b", space.edge("a.x", "b.u"), soundness="declared")
        await space.publish()
        assert affected(await space.impact("a", "y")) == {"b.*": ("table", 1)}


async def test_what_a_run_has_shown_of_tables_alone_counts_beside_what_is_known_of_columns() -> (
    None
):
    async with world("a(x, y)", "b(u)") as space:
        await space.observe("a", "b", space.edge("a.x", "b.u"))
        await space.observe("a", "b", soundness="opaque")
        await space.publish()
        assert affected(await space.impact("a", "y")) == {"b.*": ("table", 1)}
        assert affected(await space.impact("a", "x")) == {"b.u": ("value", 1), "b.*": ("table", 1)}


async def test_an_unknown_column_or_table_is_not_found() -> None:
    async with world("a(x)", "b(u)") as space:
        await space.observe("a", "b", space.edge("a.x", "b.u"))
        await space.publish()
        for table in ("a", "b"):
            with pytest.raises(NotFound, match="no column 'nothing'"):
                await space.impact(table, "nothing")
        with pytest.raises(NotFound, match="no table"):
            await space.tracer.impact("nowhere", "x")


async def test_an_impact_has_the_same_bytes_again() -> None:
    async with world("a(x)", *(f"t{at}(u, v)" for at in range(20))) as space:
        for at in range(20):
            kind = ("DIRECT", "FILTER", "CASE")[at % 3]
            await space.observe(
                "a", f"t{at}", space.edge("a.x", f"t{at}.{'*' if at % 3 == 1 else 'u'}", kind)
            )
            await space.observe(f"t{at}", f"t{(at + 7) % 20}")
        fresh = msgspec.json.encode(await space.impact("a", "x", freshness="fresh"))
        await space.publish()
        impact = await space.impact("a", "x")
        assert (
            len(impact.affected) == 13 + 20
        )  # those reached by columns are reached as a whole too
        assert msgspec.json.encode(impact) == fresh
