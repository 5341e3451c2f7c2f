"""The proof of put-if-absent at start (law 13): a store that lies is refused, with a sentence."""

from collections.abc import Iterator

import pytest

from arco.core.errors import Denied, Unavailable, Unknown, Unsupported
from arco.core.runtime import Runtime
from arco.core.scope import Scope
from arco.storage.backend import Backend, ObservedBackend
from arco.storage.open import PROBE_KEY, check_put_if_absent, open_store, race_put_if_absent
from arco.storage.roles import Role
from arco.storage.store import Store
from tests.faults.operation import Verb
from tests.faults.running import RunningServer, running_server
from tests.faults.script import Fault, Rule
from tests.storage.interposed import Interposed
from tests.storage.recorder import Recorder
from tests.storage.test_own_writes import DIALECTS
from tests.stores import HASTY, Bench, fault_url, open_bench

every_dialect = pytest.mark.parametrize("dialect", DIALECTS)


@pytest.fixture(scope="module")
def liar() -> Iterator[RunningServer]:
    """A server that takes every write, whatever its condition."""
    with running_server(ignore_conditions=True) as server:
        yield server


def bench_on(server: RunningServer, dialect: str, runtime: Runtime, prefix: str) -> Bench:
    return open_bench(fault_url(dialect, server, prefix), runtime)


@every_dialect
async def test_a_store_that_ignores_the_condition_is_refused_with_a_sentence(
    liar: RunningServer, dialect: str, runtime: Runtime
) -> None:
    backend = bench_on(liar, dialect, runtime, dialect).backend
    for _ in range(3):  # at the first start and at every later one
        with pytest.raises(Unsupported) as refused:
            await open_store(backend, runtime, role=Role.API)
    message = str(refused.value)
    assert "does not honour put-if-absent" in message
    assert "If-None-Match" in message
    assert "Two writers would overwrite each other" in message


@every_dialect
async def test_the_thorough_proof_refuses_it_too(
    liar: RunningServer, dialect: str, runtime: Runtime
) -> None:
    with pytest.raises(Unsupported, match="racers created the same object"):
        await race_put_if_absent(
            bench_on(liar, dialect, runtime, f"race-{dialect}").store(), racers=8
        )


@every_dialect
async def test_a_store_that_answers_501_to_a_conditional_write_is_refused_with_a_sentence(
    faults: RunningServer, dialect: str, runtime: Runtime
) -> None:
    """Some stores know of the condition, and that they cannot keep it."""
    rule = Rule(fault=Fault.NOT_IMPLEMENTED, verb=Verb.PUT)
    faults.script.add(rule)
    backend = bench_on(faults, dialect, runtime, f"{dialect}-501-{runtime.rng.random()}").backend
    with pytest.raises(Unsupported, match="does not support conditional writes"):
        await open_store(backend, runtime, role=Role.API, retry=HASTY)
    assert faults.script.struck() == [(rule, 1)], (
        "it will answer the same, so it is not asked again"
    )


@every_dialect
async def test_a_501_after_a_create_that_may_have_landed_is_no_definite_no(
    faults: RunningServer, dialect: str, runtime: Runtime
) -> None:
    store = bench_on(faults, dialect, runtime, f"{dialect}-501-{runtime.rng.random()}").store()
    faults.script.add(
        Rule(fault=Fault.HANG, verb=Verb.PUT, times=1),
        Rule(fault=Fault.NOT_IMPLEMENTED),
    )
    with pytest.raises(Unknown):
        await store.create("locks/d/x.json", b"{}")


async def test_an_honest_store_passes_at_every_start(bench: Bench) -> None:
    for role in (Role.API, Role.COMPACTOR, Role.FLOW, Role.JANITOR):
        store = await open_store(bench.backend, bench.runtime, role=role, retry=HASTY)
        assert store.role is role
    await race_put_if_absent(bench.store())
    assert PROBE_KEY in [meta.key async for meta in bench.store(Role.JANITOR).list("_probe/")]


async def test_a_reader_writes_nothing_to_prove_anything(memory: Backend, runtime: Runtime) -> None:
    await open_store(memory, runtime, role=Role.READER)
    assert [meta async for meta in memory.list("")] == []


async def test_once_the_key_is_there_the_proof_is_one_create_and_one_look(
    memory: Backend, runtime: Runtime
) -> None:
    recorder = Recorder()
    await open_store(memory, runtime, role=Role.API)
    watched = ObservedBackend(memory, recorder, runtime.clock)
    await open_store(watched, runtime, role=Role.API)
    assert recorder.verbs() == ["create", "get"]


@every_dialect
@pytest.mark.parametrize("fault", [Fault.ERROR_AFTER, Fault.DROP_AFTER, Fault.UNAVAILABLE_BEFORE])
async def test_an_honest_store_with_a_bad_moment_is_not_taken_for_a_liar(
    faults: RunningServer, dialect: str, runtime: Runtime, fault: Fault
) -> None:
    bench = bench_on(faults, dialect, runtime, f"{dialect}-{fault}-{runtime.rng.random()}")
    faults.script.add(Rule(fault=fault, key="_probe", times=2))
    await check_put_if_absent(bench.store())


@pytest.mark.parametrize(
    ("refusal", "expected"), [(Unavailable("503"), Unknown), (Denied("403"), Denied)]
)
async def test_a_store_that_cannot_be_proven_is_not_opened(
    memory: Backend, runtime: Runtime, refusal: Exception, expected: type[Exception]
) -> None:
    async def refuse(verb: str, key: str) -> None:
        raise refusal

    with pytest.raises(expected):
        await open_store(Interposed(memory, before=refuse), runtime, role=Role.API, retry=HASTY)


async def test_each_workspace_probes_its_own_prefix(memory: Backend, runtime: Runtime) -> None:
    for tenant in ("a", "b"):
        await open_store(memory, runtime, role=Role.API, scope=Scope(tenant))
    keys = [meta.key async for meta in memory.list("")]
    assert keys == [f"tenant={tenant}/workspace=default/{PROBE_KEY}" for tenant in ("a", "b")]
    assert Store(memory, runtime, scope=Scope(), role=Role.API).scope.tenant == "default"
