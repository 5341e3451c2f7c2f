"""Creates that give up: `Unknown` if an attempt may have been applied, no definite error (P2, law 9)."""

from collections.abc import Callable

import pytest

from arco.core.errors import (
    AlreadyExists,
    ArcoError,
    Conflict,
    Corrupt,
    Denied,
    Invalid,
    NotFound,
    StoreFull,
    Unavailable,
    Unknown,
)
from arco.core.ids import new_ulid
from arco.core.runtime import Runtime
from arco.core.scope import Scope
from arco.storage.backend import Backend
from arco.storage.retry import StoreRetryPolicy
from arco.storage.roles import Role
from arco.storage.store import Store
from tests.faults.operation import Verb
from tests.faults.running import RunningServer
from tests.faults.script import Fault, Rule
from tests.storage.interposed import Interposed
from tests.storage.test_own_writes import DIALECTS, MISHAPS
from tests.stores import fault_url, open_bench

KEY = "locks/d/x.json"
SHORT = StoreRetryPolicy(
    attempts=3, first_pause_ms=1, longest_pause_ms=2, budget_ms=5_000, attempt_ms=120
)


def handle(backend: Backend, runtime: Runtime) -> Store:
    return Store(backend, runtime, scope=Scope(), role=Role.API, retry=SHORT)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("mishap", MISHAPS.keys())
async def test_a_fault_that_never_ends_is_unknown_unless_the_look_saw_our_object(
    dialect: str, mishap: str, faults: RunningServer, runtime: Runtime
) -> None:
    backend = open_bench(fault_url(dialect, faults, new_ulid(runtime)), runtime).backend
    store = handle(backend, runtime)
    faults.script.add(MISHAPS[mishap].rule("locks/", times=None))
    if MISHAPS[mishap].applied:
        await store.create(KEY, b"ours")
    else:
        with pytest.raises(Unknown):
            await store.create(KEY, b"ours")


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("applied", [True, False])
async def test_a_store_that_goes_silent_for_writes_and_looks_is_unknown(
    dialect: str, applied: bool, faults: RunningServer, runtime: Runtime
) -> None:
    backend = open_bench(fault_url(dialect, faults, new_ulid(runtime)), runtime).backend
    first = Fault.ERROR_AFTER if applied else Fault.UNAVAILABLE_BEFORE
    faults.script.add(Rule(fault=first, verb=Verb.PUT), Rule(fault=Fault.UNAVAILABLE_BEFORE))
    with pytest.raises(Unknown):
        await handle(backend, runtime).create(KEY, b"ours")


class Refusing:
    """Steps that answer the creates, and the looks, with errors in the order given; then nothing."""

    def __init__(self, creates: list[ArcoError], looks: list[ArcoError]) -> None:
        self._errors = {"create": creates, "get": looks}

    async def step(self, verb: str, key: str) -> None:
        errors = self._errors.get(verb)
        if errors:
            raise errors.pop(0)


DEFINITE: tuple[Callable[[str], ArcoError], ...] = (Denied, Invalid, Corrupt, NotFound)


@pytest.mark.parametrize("refusal", [*DEFINITE, StoreFull])
async def test_a_refusal_of_the_first_attempt_is_passed_on(
    refusal: Callable[[str], ArcoError], memory: Backend, runtime: Runtime
) -> None:
    refused = refusal("403")
    store = handle(Interposed(memory, before=Refusing([refused], []).step), runtime)
    with pytest.raises(type(refused)):
        await store.create(KEY, b"ours")
    await store.create(KEY, b"ours")  # and nothing had happened


@pytest.mark.parametrize("refusal", DEFINITE)
@pytest.mark.parametrize("applied", [True, False])
async def test_a_refusal_after_an_attempt_of_unknown_outcome_is_unknown(
    refusal: Callable[[str], ArcoError], applied: bool, memory: Backend, runtime: Runtime
) -> None:
    # The first write lands, or may yet; the look does not see it; the second attempt is refused.
    creates: list[ArcoError] = [Unavailable("503"), refusal("403")]
    steps = Refusing(creates, [Unavailable("503")])
    placed = (
        Interposed(memory, after=steps.step) if applied else Interposed(memory, before=steps.step)
    )
    with pytest.raises(Unknown):
        await handle(placed, runtime).create(KEY, b"ours")


async def test_a_full_store_after_an_attempt_of_unknown_outcome_is_unknown(
    memory: Backend, runtime: Runtime
) -> None:
    creates: list[ArcoError] = [Unavailable("503"), *[StoreFull("507")] * 5]
    placed = Interposed(memory, before=Refusing(creates, []).step)
    with pytest.raises(Unknown):
        await handle(placed, runtime).create(KEY, b"ours")
    assert len(creates) == 6 - SHORT.attempts


@pytest.mark.parametrize("refusal", [Denied, Invalid, Corrupt, AlreadyExists])
@pytest.mark.parametrize("answer", [Unavailable, AlreadyExists])
async def test_a_look_that_is_refused_finds_nothing_out(
    refusal: Callable[[str], ArcoError],
    answer: Callable[[str], ArcoError],
    memory: Backend,
    runtime: Runtime,
) -> None:
    steps = Refusing([answer("?")] * 9, [refusal("403")] * 9)
    with pytest.raises(Unknown):
        await handle(Interposed(memory, after=steps.step), runtime).create(KEY, b"ours")
    assert await memory.get(Scope().prefix + KEY) == b"ours"


async def test_another_object_is_a_conflict_although_earlier_attempts_were_unknown(
    memory: Backend, runtime: Runtime
) -> None:
    await memory.create(Scope().prefix + KEY, b"another's")
    steps = Refusing([Unavailable("503"), Unavailable("503")], [Unavailable("503")])
    with pytest.raises(Conflict):
        await handle(Interposed(memory, after=steps.step), runtime).create(KEY, b"ours")


async def test_an_object_that_a_look_has_read_is_settled_before_it_counts(
    memory: Backend, runtime: Runtime
) -> None:
    verbs: list[str] = []

    async def lose_the_first_answer(verb: str, key: str) -> None:
        verbs.append(verb)
        if verb in ("create", "settle") and verbs.count(verb) == 1:
            raise Unavailable("lost")

    await handle(Interposed(memory, after=lose_the_first_answer), runtime).create(KEY, b"ours")
    assert verbs == ["create", "get", "settle", "create", "get", "settle"]
