"""What each role may do where, as a second table: written from the design, not from the code (law 4)."""

import pytest

from arco.core.errors import ArcoError, Denied
from arco.core.runtime import Runtime
from arco.core.scope import Scope
from arco.storage.backend import Backend
from arco.storage.roles import Role, Verb, may, may_in_external_location
from arco.storage.store import Store
from tests.figures import Figure
from tests.storage.interposed import Interposed

NUMBER = f"{7:020d}.json"
NO_ROLE: tuple[str, ...] = ()

# A key of each kind, and who may create it.
CREATORS: dict[str, tuple[str, ...]] = {
    "ledger/executions/01JZ/000000000007.jsonl": ("api", "flow", "janitor"),  # its seals
    "sequence/executions/000000000007.json": ("api", "flow"),
    f"locks/catalog/{NUMBER}": ("api",),
    "_catalog/idempotency/ab/abcd/0000.json": ("api",),
    f"_catalog/iceberg_pointers/t1/{NUMBER}": ("api",),
    f"_catalog/iceberg_doubts/names/{NUMBER}": ("api",),
    "_catalog/transactions/tx1/intent.json": ("api",),
    "_catalog/transactions/tx1/outcome.json": ("api",),
    f"_catalog/parquet_pointers/t1/{NUMBER}": ("flow",),
    f"_catalog/delta_coordinator/t1/{NUMBER}": ("api",),
    "events/2026-01-31/iceberg/pending/x.json": ("api",),
    "events/2026-01-31/iceberg/committed/x.json": ("api",),
    "_staging/attempt1/part-0.parquet": ("flow",),
    "runs/01JZ/plan.json": ("flow",),
    "runs/keys/abcd.json": ("flow",),
    "logs/01JZ/attempt1/000000.txt": ("flow",),
    f"manifests/catalog/{NUMBER}": ("compactor",),
    f"commits/catalog/{7:020d}-01JZ.json": ("compactor",),
    "snapshots/catalog/all/tables/x.parquet": ("compactor",),
    "state/executions/all/tasks/x.parquet": ("compactor",),
    "quarantine/executions/all/quarantine/x.parquet": ("compactor",),
    "warehouse/t1/data/x.parquet": ("flow",),
    "warehouse/t1/metadata/x.json": ("api", "flow"),
    f"manifests/catalog/floor/{NUMBER}": ("janitor",),
    f"locks/catalog/floor/{NUMBER}": ("janitor",),
    f"sequence/executions/floor/{NUMBER}": ("janitor",),
    f"_catalog/iceberg_pointers/t1/floor/{NUMBER}": ("janitor",),
    f"_catalog/iceberg_doubts/names/floor/{NUMBER}": ("janitor",),
    f"_catalog/parquet_pointers/t1/floor/{NUMBER}": ("janitor",),
    f"_catalog/delta_coordinator/t1/floor/{NUMBER}": ("janitor",),
    "_probe/put-if-absent.json": ("api", "compactor", "flow", "janitor"),
    "elsewhere/x.json": NO_ROLE,
    "manifestsx/catalog/x.json": NO_ROLE,
    "_catalog/x.json": NO_ROLE,
    "x.json": NO_ROLE,
    "warehouse/x.json/y": ("flow",),
}

# Who may overwrite it: hints and heartbeats, and nothing that correctness rests on (law 2).
HINTERS: dict[str, tuple[str, ...]] = {
    "sequence/executions/head.json": ("api", "flow", "janitor"),
    "locks/catalog/head.json": ("api",),
    f"locks/catalog/{7:020d}.renewal.json": ("api",),
    "_catalog/iceberg_pointers/t1/head.json": ("api",),
    "_catalog/iceberg_doubts/names/head.json": ("api",),
    "_catalog/delta_coordinator/t1/head.json": ("api",),
    "_catalog/parquet_pointers/t1/head.json": ("flow",),
    "manifests/catalog/head.json": ("compactor", "janitor"),
    "leases/attempt1.json": ("flow",),
    "leases/floor/attempt1.json": NO_ROLE,  # floors are never overwritten, whatever the pattern says
    "sequence/floor/head.json": NO_ROLE,
    "_probe/clock.json": ("janitor",),  # its modification time is the time of the store
}

# Near misses: a role that creates numbers of the chain may create there, but no role may overwrite.
NEAR = {
    "manifests/catalog/deeper/head.json": ("compactor",),
    "manifests/head.json": ("compactor",),
    "manifests/catalog/floor/head.json": ("janitor",),
    "head.json": NO_ROLE,
}

# The key of a hint lies among the numbers of its chain, whose writers may create there.
CREATORS |= NEAR | HINTERS
# Except the janitor, which rewrites hints that are far behind and creates no numbers.
CREATORS["sequence/executions/head.json"] = ("api", "flow")
CREATORS["manifests/catalog/head.json"] = ("compactor",)
CREATORS["leases/attempt1.json"] = NO_ROLE  # a heartbeat is nothing but a hint
CREATORS["leases/floor/attempt1.json"] = CREATORS["sequence/floor/head.json"] = ("janitor",)
CREATORS["_probe/clock.json"] = CREATORS["_probe/put-if-absent.json"]

PUBLISHED = ("manifests/", "commits/", "snapshots/", "state/")
LISTABLE = {"compactor": ("ledger/", "sequence/"), "api": ("_catalog/idempotency/",)}


def expected(role: str, verb: str, key: str) -> bool:
    if verb == "get":
        return role != "reader" or key.startswith((*PUBLISHED, "quarantine/"))
    if verb == "list":
        return role == "janitor" or key.startswith(LISTABLE.get(role, ("nothing",)))
    if verb == "delete":
        return role == "janitor" and "/floor/" not in key  # what was collected stays so
    if verb == "sign":
        return role == "api" and key.startswith((*PUBLISHED, "warehouse/"))
    if verb == "hint":
        return role in HINTERS.get(key, NO_ROLE)
    return role in CREATORS[key]


CELLS = [(role, verb, key) for role in Role for verb in Verb for key in CREATORS]


def test_every_role_may_do_what_the_design_says_and_nothing_else(figure: Figure) -> None:
    differences = [
        (str(role), str(verb), key)
        for role, verb, key in CELLS
        if may(role, verb, key) is not expected(role, verb, key)
    ]
    assert differences == []
    allowed = sum(may(role, verb, key) for role, verb, key in CELLS)
    figure(f"roles: {len(CELLS)} cells ({allowed} allowed), 0 differ from the design")


def test_the_table_knows_every_role_and_verb() -> None:
    assert [str(role) for role in Role] == ["api", "compactor", "flow", "reader", "janitor"]
    assert [str(verb) for verb in Verb] == ["get", "list", "create", "hint", "delete", "sign"]


# In a place that an operator declared and that is not ours: the API never overwrites nor lists there.
OUTSIDE = {"api": ("get", "create"), "janitor": ("get", "list", "delete")}


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("verb", Verb)
def test_in_external_locations_a_role_may_do_what_the_design_says(role: Role, verb: Verb) -> None:
    assert may_in_external_location(role, verb) is (verb in OUTSIDE.get(role, NO_ROLE))


async def attempt(store: Store, verb: Verb, key: str) -> None:
    if verb is Verb.GET:
        await store.get(key)
    elif verb is Verb.LIST:
        _ = [meta async for meta in store.list(key.rpartition("/")[0] + "/")]
    elif verb is Verb.CREATE:
        await store.create(key, b"{}")
    elif verb is Verb.HINT:
        await store.put_hint(key, b"{}")
    elif verb is Verb.DELETE:
        await store.delete(key)
    else:
        await store.sign(key)


@pytest.mark.parametrize("role", Role)
async def test_a_handle_refuses_before_the_store_is_asked(
    memory: Backend, runtime: Runtime, role: Role
) -> None:
    requests: list[str] = []

    async def note(verb: str, key: str) -> None:
        requests.append(f"{verb} {key}")

    store = Store(Interposed(memory, before=note), runtime, scope=Scope(), role=role)
    for _, verb, key in (cell for cell in CELLS if cell[0] is role):
        if verb is Verb.LIST and "/" not in key:
            continue
        requests.clear()
        try:
            await attempt(store, verb, key)
            refused = False
        except Denied:
            refused = True
        except ArcoError:  # allowed, and then not found or not signed in memory
            refused = False
        assert refused is not expected(role, verb, key), (verb, key)
        assert refused is not bool(requests), (verb, key)


async def test_a_reader_reaches_head_and_ranges_only_where_it_may_read(
    memory: Backend, runtime: Runtime
) -> None:
    store = Store(memory, runtime, scope=Scope(), role=Role.READER)
    for key in ("ledger/d/s/0.jsonl", "locks/d/0.json", "_catalog/idempotency/a/b/0.json"):
        for request in (store.head(key), store.get_range(key, 0, 1), store.find(key)):
            with pytest.raises(Denied):
                await request
