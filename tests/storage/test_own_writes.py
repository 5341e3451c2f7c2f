"""Own-write confusion, as a matrix (figure 5; laws 8 and 9; P1, P2).

Every fault that befalls the first attempt of a create, in every dialect, on segments, on claims and on
pointers that follow another, while we are alone, while a rival was there first, and while a rival comes
right after the fault. The writer that was answered `created` must be the one whose bytes are stored.
"""

from dataclasses import dataclass
from itertools import product

from arco.core.errors import ArcoError
from arco.core.ids import new_ulid
from arco.core.json import encode
from arco.core.runtime import Runtime
from arco.core.scope import Scope
from arco.storage.backend import Backend
from arco.storage.chain import Chain, Head
from arco.storage.retry import StoreRetryPolicy
from arco.storage.roles import Role
from arco.storage.store import Store
from tests.faults.operation import Verb
from tests.faults.running import RunningServer
from tests.faults.script import Fault, Rule
from tests.figures import Figure
from tests.stores import fault_url, open_bench

DIALECTS = ("fault-s3", "fault-gcs", "fault-azure")
PATIENT = StoreRetryPolicy(
    attempts=10, first_pause_ms=2, longest_pause_ms=20, budget_ms=20_000, attempt_ms=400
)


@dataclass(frozen=True)
class Mishap:
    """One way in which an attempt goes wrong, and whether it was applied."""

    fault: Fault
    applied: bool
    reset: bool = False

    def rule(self, key: str, *, times: int | None = 1, rival: bytes | None = None) -> Rule:
        return Rule(
            fault=self.fault,
            verb=Verb.PUT,
            key=key,
            times=times,
            reset=self.reset,
            applied=self.applied,
            rival=rival,
        )


MISHAPS = {
    "503 before": Mishap(Fault.UNAVAILABLE_BEFORE, applied=False),
    "SlowDown before": Mishap(Fault.SLOW_DOWN, applied=False),
    "429 before": Mishap(Fault.THROTTLED, applied=False),
    "409, nothing stored": Mishap(Fault.CONFLICT_NOTHING_STORED, applied=False),
    "dropped before": Mishap(Fault.DROP_BEFORE, applied=False),
    "reset before": Mishap(Fault.DROP_BEFORE, applied=False, reset=True),
    "hangs, not applied": Mishap(Fault.HANG, applied=False),
    "500 after": Mishap(Fault.ERROR_AFTER, applied=True),
    "dropped after": Mishap(Fault.DROP_AFTER, applied=True),
    "reset after": Mishap(Fault.DROP_AFTER, applied=True, reset=True),
    "hangs, applied": Mishap(Fault.HANG, applied=True),
    "delivered twice": Mishap(Fault.DUPLICATE_DELIVERY, applied=True),
}
THE_RIVALS = b"the rival's"
RIVALS = ("none", "was first", "comes meanwhile")
OBJECTS = ("segment", "claim", "pointer", "metadata")


@dataclass(frozen=True)
class Cell:
    """One case of the matrix, on a separate key."""

    mishap: str
    rival: str
    object_kind: str

    @property
    def path(self) -> str:
        words = f"{self.mishap} {self.rival}".replace(" ", "-").replace(",", "")
        return {
            "segment": f"ledger/catalog/{words}",
            "claim": f"_catalog/idempotency/ab/{words}",
            "pointer": f"_catalog/iceberg_pointers/{words}",
            "metadata": f"warehouse/{words}/metadata",
        }[self.object_kind]

    @property
    def key(self) -> str:
        return {
            "segment": f"{self.path}/000000000000.jsonl",
            "claim": f"{self.path}/0000.json",
            "pointer": f"{self.path}/00000000000000000001.json",
            "metadata": f"{self.path}/v1.metadata.json",
        }[self.object_kind]

    def is_ours(self) -> bool:
        """Whether we must win, by the order in which the two arrive."""
        meanwhile = self.rival == "comes meanwhile" and not MISHAPS[self.mishap].applied
        return not (self.rival == "was first" or meanwhile)


CELLS = [Cell(*case) for case in product(MISHAPS, RIVALS, OBJECTS)]


async def read_before(store: Store, cell: Cell) -> Head:
    """What a writer has read before it creates the object of a cell (P5)."""
    if cell.object_kind != "pointer":
        return Head(None, store.runtime.clock.elapsed_ms())
    chain = Chain(store, cell.path, hinted=False)
    return await chain.append(await chain.head(), {"location": "a"})


async def create(store: Store, cell: Cell, after: Head) -> bytes:
    """Create the object of a cell as its package does, and return the bytes that count as ours."""
    if cell.object_kind in ("segment", "metadata"):
        header = {"format": 1, "create_id": new_ulid(store.runtime), "stream": "s", "seq": 0}
        body = encode(header) + b'\n{"event": 1}\n'
        await store.create(cell.key, body)
        return body
    width = 4 if cell.object_kind == "claim" else 20
    chain = Chain(store, cell.path, width=width, hinted=False, floored=False)
    head = await chain.append(after, {"kind": cell.object_kind})
    assert head.entry is not None
    return head.entry.raw


def handle(backend: Backend, runtime: Runtime) -> Store:
    return Store(backend, runtime, scope=Scope(), role=Role.API, retry=PATIENT)


async def play(cell: Cell, backend: Backend, runtime: Runtime, server: RunningServer) -> str:
    """The answer to the writer: `created`, or the code of the error."""
    full = Scope().prefix + cell.key
    store = handle(backend, runtime)
    after = await read_before(store, cell)
    if cell.rival == "was first":
        await backend.create(full, THE_RIVALS)
    # The server lets in the one that comes meanwhile: on a busy machine we may give an attempt up
    # before it has arrived, so that its end here does not say that the fault has struck there.
    rival = THE_RIVALS if cell.rival == "comes meanwhile" else None
    server.script.add(MISHAPS[cell.mishap].rule(full, rival=rival))
    try:
        ours = await create(store, cell, after)
    except ArcoError as problem:
        return problem.code
    assert await store.get(cell.key) == ours
    return "created"


async def test_the_writer_answered_created_is_the_one_stored(
    faults: RunningServer, runtime: Runtime, figure: Figure
) -> None:
    false_conflicts, false_successes, others = [], [], []
    for dialect in DIALECTS:
        prefix = new_ulid(runtime)
        backend = open_bench(fault_url(dialect, faults, prefix), runtime).backend
        answers = await runtime.tasks.gather(
            *(play(cell, backend, runtime, faults) for cell in CELLS)
        )
        struck = [times for _, times in faults.script.struck()]
        assert struck == [1] * len(CELLS)  # or a cell has not met its fault
        faults.script.clear()
        stored = faults.objects("arco")
        for cell, answer in zip(CELLS, answers, strict=True):
            ours = stored[f"{prefix}/{Scope().prefix}{cell.key}"].body != THE_RIVALS
            assert ours == cell.is_ours(), cell
            if answer == "conflict" and ours:
                false_conflicts.append((dialect, cell))
            elif answer == "created" and not ours:
                false_successes.append((dialect, cell))
            elif answer not in ("created", "conflict"):
                others.append((dialect, cell, answer))
    assert (false_conflicts, false_successes, others) == ([], [], [])
    figure(
        f"matrix: {len(CELLS) * len(DIALECTS)} cells ({len(MISHAPS)} faults, {len(DIALECTS)} dialects, "
        f"{len(RIVALS)} rivals, {len(OBJECTS)} kinds of object): {len(false_conflicts)} false "
        f"conflicts, {len(false_successes)} false successes"
    )
