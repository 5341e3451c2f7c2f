"""Which edges there are: observed and declared, kept by what they were read from."""

import asyncio

import msgspec
import pyarrow as pa
import pytest

from arco.catalog.manifest import CommitKind
from arco.catalog.reader import SnapshotReader
from arco.compactor.encode import encode, file_path
from arco.compactor.publish import Change, Publisher, parent_of
from arco.core.errors import Denied, Unavailable
from arco.core.ids import new_ulid
from arco.core.scope import Scope
from arco.fold.fold import fold
from arco.fold.table import ColumnType, MergeRule, MergeStrategy, StateColumn, StateTable, columns
from arco.fold.tier1 import DOMAIN
from arco.fold.tier2 import EXECUTIONS_DOMAIN, LINEAGE_DOMAIN
from arco.query.limits import QueryLimits
from arco.query.lineage.edges import EdgeReader
from arco.query.lineage.tracer import Tracer
from arco.storage.observed import ObservedBackend
from arco.storage.roles import Role
from arco.storage.store import Store
from tests.query.lineage.world import World, affected, pairs, world
from tests.query.told import NOON
from tests.storage.interposed import Interposed
from tests.storage.recorder import Recorder


def _recorded(here: World, recorder: Recorder, limits: QueryLimits | None = None) -> Tracer:
    watched = Interposed(here.here.backend, before=recorder.begin, after=recorder.end)
    backend = ObservedBackend(watched, recorder, here.here.runtime.clock)
    store = Store(backend, here.here.runtime, scope=Scope(), role=Role.API)
    readers = {
        name: SnapshotReader(store, name) for name in (DOMAIN, LINEAGE_DOMAIN, EXECUTIONS_DOMAIN)
    }
    return Tracer(readers, here.here.engine, limits=limits)


async def test_edges_are_read_once_for_each_manifest() -> None:
    async with world("a", "b", "c") as here:
        await here.chain("a", "b")
        await here.publish()
        recorder = Recorder()
        tracer = _recorded(here, recorder)
        await tracer.walk(here.ids["a"])
        assert [key for _, key in recorder.requests if "/lineage_edges/" in key]
        recorder.clear()
        await tracer.walk(here.ids["b"], columns=True)
        # Whether there is a newer manifest is asked, and nothing else.
        assert [key for _, key in recorder.requests if "/manifests/" not in key] == []
        await here.chain("b", "c")
        await here.publish()
        recorder.clear()
        found = await tracer.walk(here.ids["a"])
        assert pairs(found) == [("a", "b"), ("b", "c")]
        read = [key for _, key in recorder.requests if "/lineage_edges/" in key]
        assert len(read) == 1, "only the file that is new"


async def test_without_asking_for_it_nothing_of_the_ledger_is_read() -> None:
    async with world("a", "b") as here:
        await here.chain("a", "b")
        recorder = Recorder()
        tracer = _recorded(here, recorder)
        await tracer.walk(here.ids["a"])
        assert [key for _, key in recorder.requests if "/ledger/" in key] == []
        await tracer.walk(here.ids["a"], freshness="fresh")
        assert [key for _, key in recorder.requests if "/ledger/" in key] != []


async def test_more_than_a_fresh_walk_can_take_is_refused() -> None:
    async with world("a", "b") as here:
        for _ in range(4):
            await here.chain("a", "b")
        tracer = _recorded(here, Recorder(), QueryLimits(fresh_events=3))
        with pytest.raises(Unavailable, match="compact"):
            await tracer.walk(here.ids["a"], freshness="fresh")
        assert pairs(await tracer.walk(here.ids["a"])) == []


async def test_declared_edges_of_the_catalog_are_united_with_observed_ones() -> None:
    async with world("a(x)", "b(u)", "c(w)") as here:
        await here.observe("a", "b", here.edge("a.x", "b.u"))
        await here.publish()
        await _declare(here, here.edge("b.u", "c.w"), here.edge("b.u", "a.x"), dropped=1)
        readers = {name: SnapshotReader(here.here.store(Role.API), name) for name in _DOMAINS}
        edges = EdgeReader(readers, QueryLimits(), declared=_DECLARED)
        tracer = Tracer(readers, here.here.engine, edges=edges)
        found = await tracer.walk(here.ids["a"], columns=True)
        assert {
            pair: edge.soundness for pair, edge in zip(pairs(found), found.edges, strict=True)
        } == {
            ("a", "b"): ("exact",),
            ("b", "c"): ("declared",),
        }
        assert found.edges[1].columns[0].last_observed_at is None
        impact = await tracer.impact(here.ids["a"], "x")
        assert affected(impact) == {"b.u": ("value", 1), "c.w": ("value", 2)}


_DOMAINS = (DOMAIN, LINEAGE_DOMAIN, EXECUTIONS_DOMAIN)
# A table of the catalog as it is to come: what is said of an observed edge, but for when it was.
_DECLARED = StateTable(
    "declared_edges",
    key=("target_table_id", "edge_id"),
    columns=(
        *columns(
            edge_id=ColumnType.STRING,
            source_table_id=ColumnType.STRING,
            source_column_id=ColumnType.STRING,
        ),
        *columns(target_table_id=ColumnType.STRING, target_column_id=ColumnType.STRING),
        *columns(
            source_name=ColumnType.STRING,
            target_name=ColumnType.STRING,
            transformation_type=ColumnType.STRING,
        ),
        *columns(soundness=ColumnType.STRING, dropped_at=ColumnType.TIME),
        StateColumn("_commit", ColumnType.INTEGER),
    ),
    rules=(
        MergeRule(
            MergeStrategy.LAST,
            (
                *("source_table_id", "source_column_id", "target_column_id", "source_name"),
                *("target_name", "transformation_type", "soundness", "dropped_at"),
            ),
            ("_commit",),
        ),
    ),
    parent=("target_table_id",),
    label="edge_id",
)


async def _declare(here: World, *edges: dict[str, str], dropped: int) -> None:
    """Publish declared edges in the next manifest of the catalog, the last so many of them dropped."""
    rows = [
        {
            "edge_id": f"edge {at}",
            **edge,
            "soundness": "declared",
            "dropped_at": NOON if at >= len(edges) - dropped else None,
            "_commit": 1,
        }
        for at, edge in enumerate(edges)
    ]
    folded = fold(_DECLARED, pa.Table.from_pylist(rows, schema=_DECLARED.schema))
    publisher = Publisher(here.here.store(Role.COMPACTOR), DOMAIN)
    head = await publisher.chain.head()
    parent = parent_of(head)
    assert parent is not None
    path = file_path(DOMAIN, _DECLARED, new_ulid(here.here.runtime))
    ref, raw = encode(_DECLARED, folded, path)
    change = Change(
        kind=CommitKind.DDL,
        commit_ulid=new_ulid(here.here.runtime),
        tail={**parent.tail, _DECLARED.name: (ref,)},
        base=parent.base,
        changes_rows=True,
        files=[(ref, raw)],
    )
    await publisher.publish(head, change)


async def test_many_who_ask_at_once_have_the_edges_read_once() -> None:
    async with world("a", "b") as here:
        await here.chain("a", "b")
        await here.publish()
        recorder = Recorder()
        tracer = _recorded(here, recorder)
        found = await asyncio.gather(*(tracer.walk(here.ids["a"]) for _ in range(8)))
        assert len({msgspec.json.encode(each) for each in found}) == 1
        read = [key for _, key in recorder.requests if "/lineage_edges/" in key]
        assert len(read) == 1


async def test_a_state_that_could_not_be_read_is_read_anew_for_the_next_who_asks() -> None:
    async with world("a", "b") as here:
        await here.chain("a", "b")
        await here.publish()
        broken = True

        async def lose(verb: str, key: str) -> None:
            if broken and "/lineage_edges/" in key:
                raise Denied("not now")

        backend = Interposed(here.here.backend, before=lose)
        store = Store(backend, here.here.runtime, scope=Scope(), role=Role.API)
        readers = {name: SnapshotReader(store, name) for name in _DOMAINS}
        tracer = Tracer(readers, here.here.engine)
        with pytest.raises(Denied):
            await tracer.walk(here.ids["a"])
        broken = False
        assert pairs(await tracer.walk(here.ids["a"])) == [("a", "b")]
