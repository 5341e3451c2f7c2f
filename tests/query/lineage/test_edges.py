"""Edges are read once for each state, and read again after a failure."""

import asyncio

import msgspec
import pytest

from arco.catalog.reader import SnapshotReader
from arco.core.errors import Denied, Unavailable
from arco.core.scope import Scope
from arco.fold.tier1 import DOMAIN
from arco.fold.tier2 import EXECUTIONS_DOMAIN, LINEAGE_DOMAIN
from arco.query.limits import QueryLimits
from arco.query.lineage.tracer import Tracer
from arco.storage.backend import ObservedBackend
from arco.storage.roles import Role
from arco.storage.store import Store
from tests.query.lineage.lineage_workspace import World, pairs, world
from tests.storage.interposed import Interposed
from tests.storage.recorder import Recorder


def _recorded(space: World, recorder: Recorder, limits: QueryLimits | None = None) -> Tracer:
    watched = Interposed(space.workspace.backend, before=recorder.begin, after=recorder.end)
    backend = ObservedBackend(watched, recorder, space.workspace.runtime.clock)
    store = Store(backend, space.workspace.runtime, scope=Scope(), role=Role.API)
    readers = {
        name: SnapshotReader(store, name) for name in (DOMAIN, LINEAGE_DOMAIN, EXECUTIONS_DOMAIN)
    }
    return Tracer(readers, space.workspace.engine, limits=limits)


async def test_edges_are_read_once_for_each_manifest() -> None:
    async with world("a", "b", "c") as space:
        await space.chain("a", "b")
        await space.publish()
        recorder = Recorder()
        tracer = _recorded(space, recorder)
        await tracer.walk(space.ids["a"])
        assert [key for _, key in recorder.requests if "/lineage_edges/" in key]
        recorder.clear()
        await tracer.walk(space.ids["b"], columns=True)
        # Whether there is a newer manifest is asked, and nothing else.
        assert [key for _, key in recorder.requests if "/manifests/" not in key] == []
        await space.chain("b", "c")
        await space.publish()
        recorder.clear()
        lineage = await tracer.walk(space.ids["a"])
        assert pairs(lineage) == [("a", "b"), ("b", "c")]
        read = [key for _, key in recorder.requests if "/lineage_edges/" in key]
        assert len(read) == 1, "only the file that is new"


async def test_without_asking_for_it_nothing_of_the_ledger_is_read() -> None:
    async with world("a", "b") as space:
        await space.chain("a", "b")
        recorder = Recorder()
        tracer = _recorded(space, recorder)
        await tracer.walk(space.ids["a"])
        assert [key for _, key in recorder.requests if "/ledger/" in key] == []
        await tracer.walk(space.ids["a"], freshness="fresh")
        assert [key for _, key in recorder.requests if "/ledger/" in key] != []


async def test_more_than_a_fresh_walk_can_take_is_refused() -> None:
    async with world("a", "b") as space:
        for _ in range(4):
            await space.chain("a", "b")
        tracer = _recorded(space, Recorder(), QueryLimits(fresh_events=3))
        with pytest.raises(Unavailable, match="compact"):
            await tracer.walk(space.ids["a"], freshness="fresh")
        assert pairs(await tracer.walk(space.ids["a"])) == []


_DOMAINS = (DOMAIN, LINEAGE_DOMAIN, EXECUTIONS_DOMAIN)


async def test_many_who_ask_at_once_have_the_edges_read_once() -> None:
    async with world("a", "b") as space:
        await space.chain("a", "b")
        await space.publish()
        recorder = Recorder()
        tracer = _recorded(space, recorder)
        answers = await asyncio.gather(*(tracer.walk(space.ids["a"]) for _ in range(8)))
        assert len({msgspec.json.encode(each) for each in answers}) == 1
        read = [key for _, key in recorder.requests if "/lineage_edges/" in key]
        assert len(read) == 1


async def test_a_state_that_could_not_be_read_is_read_again_for_the_next_caller() -> None:
    async with world("a", "b") as space:
        await space.chain("a", "b")
        await space.publish()
        broken = True

        async def lose(verb: str, key: str) -> None:
            if broken and "/lineage_edges/" in key:
                raise Denied("not now")

        backend = Interposed(space.workspace.backend, before=lose)
        store = Store(backend, space.workspace.runtime, scope=Scope(), role=Role.API)
        readers = {name: SnapshotReader(store, name) for name in _DOMAINS}
        tracer = Tracer(readers, space.workspace.engine)
        with pytest.raises(Denied):
            await tracer.walk(space.ids["a"])
        broken = False
        assert pairs(await tracer.walk(space.ids["a"])) == [("a", "b")]
