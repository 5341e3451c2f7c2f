"""Walks from table to table."""

import asyncio

import msgspec
import pytest

from arco.catalog.ddl import DropTable, UpdateTable
from arco.core.clock import utc
from arco.core.errors import Invalid, NotFound
from arco.query.lineage import tracer
from tests.query.lineage.lineage_workspace import names, pairs, world
from tests.query.workspace import table_name


async def test_a_walk_goes_up_down_or_both_and_returns_the_steps() -> None:
    async with world("raw", "silver", "gold", "other") as space:
        await space.chain("raw", "silver", "gold")
        await space.publish()
        both = await space.walk("silver")
        steps = {node.name: (node.up, node.down) for node in both.nodes}
        assert steps == {
            "default.s.silver": (0, 0),
            "default.s.raw": (1, None),
            "default.s.gold": (None, 1),
        }
        assert sorted(pairs(both)) == [("raw", "silver"), ("silver", "gold")]
        assert pairs(await space.walk("silver", direction="up")) == [("raw", "silver")]
        assert pairs(await space.walk("silver", direction="down")) == [("silver", "gold")]


async def test_a_walk_ends_at_its_depth() -> None:
    tables = [f"t{at}" for at in range(11)]
    async with world(*tables) as space:
        await space.chain(*tables)
        await space.publish()
        for depth in (1, 3, 8):
            down = await space.walk("t0", direction="down", depth=depth)
            assert [node.down for node in down.nodes] == list(range(depth + 1))
            assert not down.truncated
            up = await space.walk("t10", direction="up", depth=depth)
            assert list(names(up).values()) == tables[: -depth - 2 : -1]


@pytest.mark.parametrize("depth", [0, 9, -1])
async def test_a_depth_that_is_none_is_refused(depth: int) -> None:
    async with world("a") as space:
        with pytest.raises(Invalid, match=f"from 1 to 8, not {depth}"):
            await space.walk("a", depth=depth)
        with pytest.raises(Invalid, match="depth"):
            await space.impact("a", "x", depth=depth)


async def test_a_direction_that_is_none_is_refused() -> None:
    async with world("a") as space:
        with pytest.raises(Invalid, match="up, down or both, not 'left'"):
            await space.walk("a", direction="left")


async def test_cycles_and_tables_made_of_themselves_end() -> None:
    async with world("a", "b", "c") as space:
        await space.chain("a", "b", "c", "a")
        await space.observe("b", "b")
        await space.publish()
        lineage = await space.walk("b", depth=8)
        assert sorted(pairs(lineage)) == [("a", "b"), ("b", "b"), ("b", "c"), ("c", "a")]
        steps = {
            name: (node.up, node.down) for node, name in zip(lineage.nodes, "bac", strict=True)
        }
        assert steps == {"b": (0, 0), "a": (1, 2), "c": (2, 1)}


async def test_a_diamond_is_walked_once_by_its_shortest_ways() -> None:
    async with world("a", "b", "c", "d") as space:
        await space.observe("a", "b")
        await space.observe("a", "c")
        await space.observe(["b", "c"], "d")
        await space.observe("a", "d")
        await space.publish()
        lineage = await space.walk("a", direction="down")
        assert {name: node.down for node, name in zip(lineage.nodes, "abcd", strict=True)} == {
            "a": 0,
            "b": 1,
            "c": 1,
            "d": 1,
        }
        assert sorted(pairs(lineage)) == [
            ("a", "b"),
            ("a", "c"),
            ("a", "d"),
            ("b", "d"),
            ("c", "d"),
        ]


async def test_every_table_is_reported_by_its_name_whichever_file_has_it() -> None:
    tables = [f"t{at}" for at in range(60)]
    async with world(*tables) as space:
        for each in tables[1:]:
            await space.observe("t0", each)
        await space.publish()
        lineage = await space.walk("t0")
        assert sorted(node.name for node in lineage.nodes) == sorted(
            f"default.s.{t}" for t in tables
        )


async def test_a_table_that_was_renamed_has_its_new_name_and_its_old_lineage() -> None:
    async with world("old(x)", "next(y)") as space:
        await space.observe("old", "next", space.edge("old.x", "next.y"))
        await space.publish()
        await space.workspace.do(UpdateTable(target=table_name("s", "old"), name="new"))
        lineage = await space.walk("next", columns=True)
        assert pairs(lineage) == [("new", "next")]


async def test_a_table_that_was_dropped_is_marked_also_with_its_schema() -> None:
    async with world("a", "b") as space:
        await space.chain("a", "b")
        await space.publish()
        await space.workspace.do(DropTable(target=table_name("s", "a")))
        lineage = await space.walk("b")
        assert {node.name: node.dropped for node in lineage.nodes} == {
            "default.s.a": True,
            "default.s.b": False,
        }
        assert (await space.walk("a")).nodes[0].dropped  # and can be asked for


async def test_what_has_no_id_is_external_and_what_the_catalog_does_not_have_is_unknown() -> None:
    async with world("a") as space:
        await space.observe("hive.legacy.customers", "a")
        await space.observe("a", "s3://lake/out")
        space.ids["ghost"] = "tbl-ghost"
        await space.observe("ghost", "a")
        await space.publish()
        lineage = await space.walk("a")
        edges = {
            (node.id, node.kind, node.name) for node in lineage.nodes if node.name != "default.s.a"
        }
        assert edges == {
            ("external:hive.legacy.customers", "EXTERNAL", "hive.legacy.customers"),
            ("external:s3://lake/out", "EXTERNAL", "s3://lake/out"),
            ("tbl-ghost", "UNKNOWN", "ghost"),
        }
        down = await space.tracer.walk("external:hive.legacy.customers", direction="down")
        assert [node.down for node in down.nodes] == [0, 1, 2]
        assert [node.down for node in (await space.tracer.walk("tbl-ghost")).nodes] == [0, 1, 2]


async def test_columns_of_an_external_table_are_shown_with_it() -> None:
    async with world("a(x)") as space:
        edge = {**space.column("target", "a.x"), "source_name": "hive.legacy.customers.id"}
        await space.observe("hive.legacy.customers", "a", {**edge, "transformation_type": "CAST"})
        await space.publish()
        lineage = await space.walk("a", columns=True)
        assert pairs(lineage) == [("hive.legacy.customers", "a")]
        [column] = lineage.edges[0].columns
        assert (column.source_column, column.source_column_id) == ("id", None)
        assert (column.target_column, column.transformation) == ("x", "CAST")
        assert [node.columns[0].name for node in lineage.nodes] == ["x", "id"]


async def test_what_filters_an_external_target_touches_all_of_it() -> None:
    async with world("a(x)") as space:
        edge = {**space.column("source", "a.x"), "target_name": "s3://lake/out.v2.*"}
        await space.observe("a", "s3://lake/out.v2", {**edge, "transformation_type": "FILTER"})
        await space.publish()
        lineage = await space.walk("a", columns=True)
        assert pairs(lineage) == [("a", "s3://lake/out.v2")]
        assert [(each.source_column, each.target_column) for each in lineage.edges[0].columns] == [
            ("x", None)
        ]


async def test_a_table_without_edges_is_alone_and_an_unknown_table_is_not_found() -> None:
    async with world("a") as space:
        lineage = await space.walk("a", columns=True, runs=True)
        assert (len(lineage.nodes), lineage.edges, lineage.nodes[0].name) == (1, (), "default.s.a")
        with pytest.raises(NotFound, match="no-such"):
            await space.tracer.walk("no-such")
        schema = (await space.workspace.reader().head()).number
        assert schema >= 0
        catalog = await (await space.workspace.reader().head()).catalog("default")
        with pytest.raises(NotFound):  # an id, but of no table
            await space.tracer.walk(catalog.row.catalog_id)


async def test_edges_name_their_columns_by_their_current_names() -> None:
    from arco.catalog.ddl import DropColumn, UpdateColumn

    async with world("a(x, y, z)", "b(u, v)") as space:
        await space.observe(
            "a",
            "b",
            space.edge("a.x", "b.u", "CAST", transformation_sql="CAST(x AS INT)"),
            space.edge("a.y", "b.v"),
            space.edge("a.z", "b.*", "FILTER"),
        )
        await space.publish()
        await space.workspace.do(
            UpdateColumn(target=table_name("s", "a"), column="x", name="renamed")
        )
        await space.workspace.do(DropColumn(target=table_name("s", "a"), column="y"))
        lineage = await space.walk("a", columns=True)
        [edge] = lineage.edges
        assert edge.column_edges == 3
        edge_columns = [
            (each.source_column, each.target_column, each.reach) for each in edge.columns
        ]
        assert edge_columns == [
            ("renamed", "u", "value"),
            ("y", "v", "value"),
            ("z", None, "influence"),
        ]
        assert edge.columns[0].sql == "CAST(x AS INT)"
        columns = {each.name: each.dropped for each in lineage.nodes[0].columns}
        assert columns == {"renamed": False, "y": True, "z": False}
        assert (await space.walk("a")).edges[0].columns == ()


async def test_an_edge_seen_with_other_code_is_one_edge_shown_as_the_newest() -> None:
    async with world("a(x)", "b(u)") as space:
        for number, sql in enumerate(["x + 1", "x + 2", "x + 3"]):
            seen = space.edge("a.x", "b.u", "EXPRESSION", transformation_sql=sql)
            await space.observe("a", "b", {**seen, "transform_fingerprint": f"f{number}"})
        await space.publish()
        [edge] = (await space.walk("a", columns=True)).edges
        [column] = edge.columns
        assert column.sql == "x + 3"
        assert column.first_observed_at is not None
        assert column.last_observed_at is not None
        assert column.first_observed_at.day == 2
        assert column.last_observed_at.day == 4
        assert (edge.execution_id, edge.pipeline_id) == ("run-3", "daily")


async def test_columns_known_by_name_alone_are_those_with_that_name_elsewhere() -> None:
    async with world("a(x)", "b(u)", "c(w)") as space:
        await space.observe("a", "b", space.edge("a.x", "b.u"))
        nameless = space.edge("b.u", "c.w")
        del nameless["source_column_id"]
        await space.observe("b", "c", nameless)
        await space.publish()
        impact = await space.impact("a", "x")
        assert [each.distance for each in impact.affected] == [1, 2]


async def test_the_runs_of_an_edge_are_listed_newest_first() -> None:
    async with world("a(x)", "b(u)") as space:
        for _ in range(3):
            await space.observe("a", "b", space.edge("a.x", "b.u"))
        await space.observe("hive.x", "b")
        await space.publish()
        await space.observe("a", "b", space.edge("a.x", "b.u"))
        lineage = await space.walk("b", runs=True)
        runs = {
            source: edge.runs
            for (source, _), edge in zip(pairs(lineage), lineage.edges, strict=True)
        }
        assert [run.execution_id for run in runs["a"]] == ["run-3", "run-2", "run-1"]
        assert [run.task_id for run in runs["hive.x"]] == ["load"]
        fresh = await space.walk("b", runs=True, freshness="fresh")
        assert next(run.execution_id for run in fresh.edges[0].runs) == "run-5"
        assert (await space.walk("b")).edges[0].runs == ()


async def test_a_fresh_walk_has_what_was_just_acknowledged() -> None:
    async with world("a", "b", "c") as space:
        await space.chain("a", "b")
        assert pairs(await space.walk("a")) == []
        assert pairs(await space.walk("a", freshness="fresh")) == [("a", "b")]
        await space.publish()
        await space.chain("b", "c")
        assert pairs(await space.walk("a")) == [("a", "b")]
        fresh = await space.walk("a", freshness="fresh")
        await space.publish()
        assert msgspec.json.encode(fresh) == msgspec.json.encode(await space.walk("a"))


async def test_the_same_state_gives_the_same_bytes_however_it_lies_in_files() -> None:
    names = [f"t{at}" for at in range(12)]

    async def answer_after(order: list[int], *, often: bool) -> bytes:
        async with world(*(f"{name}(x, y)" for name in names)) as space:
            for at in order:
                space.seen = at
                source, target = names[at % 5], names[5 + at % 7]
                edges = [
                    space.edge(f"{source}.x", f"{target}.x"),
                    space.edge(f"{source}.y", f"{target}.*", "SORT"),
                ]
                await space.observe(source, target, *edges)
                if often:
                    await space.publish()
            await space.publish()
            lineage = await space.walk("t0", columns=True, depth=8)
            assert lineage.edges
            text = msgspec.json.encode(lineage).decode()
            for name, table_id in space.ids.items():
                for column, column_id in space.columns[name].items():
                    text = text.replace(column_id, f"{name}-{column}")
                text = text.replace(table_id, name)
            edge_ids = [each.edge_id for edge in lineage.edges for each in edge.columns]
            for edge_id in edge_ids:
                text = text.replace(edge_id, "edge")
            return text.encode()

    order = list(range(20))
    assert await answer_after(order, often=True) == await answer_after(order[::-1], often=False)


async def test_the_past_is_shown_as_it_was() -> None:
    async with world("a", "b", "c") as space:
        await space.chain("a", "b")
        await space.publish()
        then = space.workspace.runtime.clock.now_ms()
        await asyncio.sleep(0.02)
        await space.workspace.do(UpdateTable(target=table_name("s", "b"), name="renamed"))
        await space.chain("b", "c")
        await space.publish()
        assert sorted(pairs(await space.walk("a"))) == [("a", "renamed"), ("renamed", "c")]
        for as_of in ("0", utc(then).isoformat()):
            assert pairs(await space.walk("a", as_of=as_of)) == [("a", "b")]
        with pytest.raises(NotFound):
            await space.walk("a", as_of="77")
        with pytest.raises(Invalid, match="fresh"):
            await space.walk("a", as_of="0", freshness="fresh")


async def test_an_answer_that_would_hold_too_much_keeps_what_is_nearest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with world("a(x)", "b(x)", "c(x)", "d(x)", "e(x)") as space:
        for source, target in ("ab", "bc", "cd", "be"):
            edge = space.edge(f"{source}.x", f"{target}.x")
            await space.observe(source, target, edge)
        await space.publish()
        full_lineage = await space.walk("a", columns=True)
        assert (len(full_lineage.nodes), len(full_lineage.edges), full_lineage.truncated) == (
            5,
            4,
            False,
        )
        with monkeypatch.context() as few:
            few.setattr(tracer, "MAX_TABLES", 3)
            cut = await space.walk("a")
            assert (cut.nodes, cut.truncated) == (
                tuple(msgspec.structs.replace(each, columns=()) for each in full_lineage.nodes[:3]),
                True,
            )
        with monkeypatch.context() as few:
            few.setattr(tracer, "MAX_EDGES", 2)
            cut = await space.walk("a", columns=True)
            assert (cut.edges, cut.truncated) == (full_lineage.edges[:2], True)
        with monkeypatch.context() as few:
            few.setattr(tracer, "MAX_AFFECTED", 2)
            impact = await space.impact("a", "x")
            assert ([each.distance for each in impact.affected], impact.truncated) == ([1, 2], True)


async def test_runs_of_too_many_tables_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async with world("a", "b", "c") as space:
        await space.chain("a", "b", "c")
        await space.publish()
        monkeypatch.setattr(tracer, "MAX_RUN_TABLES", 1)
        with pytest.raises(Invalid, match="smaller depth"):
            await space.walk("a", runs=True)
        assert len((await space.walk("a", runs=True, depth=1)).edges[0].runs) == 1
