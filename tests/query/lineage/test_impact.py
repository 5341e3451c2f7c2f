"""What depends on a column, and how surely."""

import msgspec
import pytest

from arco.catalog.ddl import DropColumn, UpdateColumn
from arco.core.errors import NotFound
from tests.query.lineage.lineage_workspace import affected, names, world
from tests.query.workspace import table_name


async def test_values_are_followed_from_column_to_column_and_no_other() -> None:
    async with world("a(x, y)", "b(u, v)", "c(w)") as here:
        await here.observe("a", "b", here.edge("a.x", "b.u"), here.edge("a.y", "b.v"))
        await here.observe("b", "c", here.edge("b.v", "c.w", "AGGREGATE"))
        await here.publish()
        assert affected(await here.impact("a", "x")) == {"b.u": ("value", 1)}
        found = await here.impact("a", "y")
        assert affected(found) == {"b.v": ("value", 1), "c.w": ("value", 2)}
        called = names(found)
        way = [
            (called[step.table_id], step.column, step.transformation)
            for step in found.affected[1].path
        ]
        assert way == [("b", "v", "DIRECT"), ("c", "w", "AGGREGATE")]
        assert affected(await here.impact("a", "y", depth=1)) == {"b.v": ("value", 1)}
        assert affected(await here.impact("c", "w")) == {}


async def test_an_influence_reaches_every_column_of_its_target_and_what_is_made_of_them() -> None:
    async with world("a(x, y)", "b(u)", "c(w, other)") as here:
        await here.observe("a", "b", here.edge("a.x", "b.u"), here.edge("a.y", "b.*", "FILTER"))
        await here.observe("b", "c", here.edge("b.u", "c.w"))
        await here.publish()
        found = await here.impact("a", "y")
        assert affected(found) == {"b.*": ("influence", 1), "c.w": ("influence", 2)}
        assert [step.reach for step in found.affected[1].path] == ["influence", "value"]
        assert affected(await here.impact("a", "x")) == {"b.u": ("value", 1), "c.w": ("value", 2)}


async def test_what_is_known_of_tables_alone_is_reached_and_marked_so() -> None:
    async with world("a(x)", "b(u)", "c(w)", "d(z)") as here:
        await here.observe("a", "b")
        await here.observe("b", "c", here.edge("b.u", "c.w"))
        await here.observe("c", "d")
        await here.publish()
        found = await here.impact("a", "x")
        assert affected(found) == {"b.*": ("table", 1), "c.w": ("table", 2), "d.*": ("table", 3)}
        assert [step.reach for step in found.affected[2].path] == ["table", "value", "table"]


async def test_the_surest_path_is_shown_though_another_is_shorter() -> None:
    async with world("a(x)", "b(u)", "c(w)") as here:
        await here.observe("a", "b", here.edge("a.x", "b.u"))
        await here.observe("b", "c", here.edge("b.u", "c.w", "CASE"))
        await here.observe("a", "c", here.edge("a.x", "c.w", "JOIN"))
        await here.publish()
        assert affected(await here.impact("a", "x"))["c.w"] == ("value", 2)


async def test_cycles_of_columns_end() -> None:
    async with world("a(x)", "b(u)") as here:
        await here.observe("a", "b", here.edge("a.x", "b.u"))
        await here.observe("b", "a", here.edge("b.u", "a.x"))
        await here.observe("a", "a", here.edge("a.x", "a.*", "FILTER"))
        await here.publish()
        found = await here.impact("a", "x")
        assert affected(found) == {"b.u": ("value", 1), "a.*": ("influence", 1)}


async def test_a_column_that_was_renamed_or_dropped_is_found_by_the_name_it_has_or_had() -> None:
    async with world("a(x, y)", "b(u, v)") as here:
        await here.observe("a", "b", here.edge("a.x", "b.u"), here.edge("a.y", "b.v"))
        await here.publish()
        await here.here.do(UpdateColumn(target=table_name("s", "a"), column="x", name="now"))
        await here.here.do(DropColumn(target=table_name("s", "a"), column="y"))
        found = await here.impact("a", "now")
        assert affected(found) == {"b.u": ("value", 1)}
        assert found.column_id == here.columns["a"]["x"]
        assert affected(await here.impact("a", "y")) == {"b.v": ("value", 1)}
        by_id = await here.impact("a", here.columns["a"]["x"])
        assert (by_id.column, affected(by_id)) == ("now", {"b.u": ("value", 1)})


async def test_columns_that_the_catalog_does_not_have_go_by_the_names_that_were_seen() -> None:
    async with world() as here:
        here.ids = {"p": "tbl-p", "q": "tbl-q"}
        here.columns = {"p": {"x": "col-x"}, "q": {"u": "col-u"}}
        await here.observe("p", "q", here.edge("p.x", "q.u"))
        await here.publish()
        [found] = (await here.impact("p", "x")).affected
        assert (found.table_id, found.column, found.column_id) == ("tbl-q", "u", "col-u")
        assert (await here.impact("q", "u")).affected == ()


async def test_a_column_without_edges_still_depends_on_by_its_table() -> None:
    async with world("a(x, unused)", "b(u)", "c(w)") as here:
        await here.observe("a", "b", here.edge("a.x", "b.u"))
        await here.observe("a", "c")
        await here.publish()
        assert affected(await here.impact("a", "unused")) == {"c.*": ("table", 1)}
        assert (await here.impact("c", "w")).affected == ()


async def test_what_was_only_declared_says_nothing_where_columns_are_known() -> None:
    async with world("a(x, y)", "b(u)", "c(w)") as here:
        await here.observe("a", "b", here.edge("a.x", "b.u"))
        await here.observe("a", "b", soundness="declared")
        await here.observe("a", "c", soundness="declared")
        await here.publish()
        assert affected(await here.impact("a", "y")) == {"c.*": ("table", 1)}
        [first] = [edge for edge in (await here.walk("b")).edges if edge.source == here.ids["a"]]
        assert first.soundness == ("declared", "exact")


async def test_what_code_may_have_made_of_rows_that_it_was_given_counts_beside_the_columns() -> (
    None
):
    async with world("a(x, y)", "b(u)") as here:
        await here.observe("a", "b", here.edge("a.x", "b.u"), soundness="declared")
        await here.publish()
        assert affected(await here.impact("a", "y")) == {"b.*": ("table", 1)}


async def test_what_a_run_has_shown_of_tables_alone_counts_beside_what_is_known_of_columns() -> (
    None
):
    async with world("a(x, y)", "b(u)") as here:
        await here.observe("a", "b", here.edge("a.x", "b.u"))
        await here.observe("a", "b", soundness="opaque")
        await here.publish()
        assert affected(await here.impact("a", "y")) == {"b.*": ("table", 1)}
        assert affected(await here.impact("a", "x")) == {"b.u": ("value", 1), "b.*": ("table", 1)}


async def test_an_unknown_column_or_table_is_not_found() -> None:
    async with world("a(x)", "b(u)") as here:
        await here.observe("a", "b", here.edge("a.x", "b.u"))
        await here.publish()
        for table in ("a", "b"):
            with pytest.raises(NotFound, match="no column 'nothing'"):
                await here.impact(table, "nothing")
        with pytest.raises(NotFound, match="no table"):
            await here.tracer.impact("nowhere", "x")


async def test_an_impact_has_the_same_bytes_again() -> None:
    async with world("a(x)", *(f"t{at}(u, v)" for at in range(20))) as here:
        for at in range(20):
            kind = ("DIRECT", "FILTER", "CASE")[at % 3]
            await here.observe(
                "a", f"t{at}", here.edge("a.x", f"t{at}.{'*' if at % 3 == 1 else 'u'}", kind)
            )
            await here.observe(f"t{at}", f"t{(at + 7) % 20}")
        fresh = msgspec.json.encode(await here.impact("a", "x", freshness="fresh"))
        await here.publish()
        found = await here.impact("a", "x")
        assert len(found.affected) == 13 + 20  # those reached by columns are reached as a whole too
        assert msgspec.json.encode(found) == fresh
