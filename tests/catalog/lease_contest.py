"""Several simulated processes that want the lease of one domain, and what all of them saw of it."""

from collections.abc import Callable, Coroutine
from typing import Any

from arco.catalog.lease import LIFE_MS, Lease
from arco.core.scope import Scope
from arco.storage.roles import Role
from arco.storage.store import Store
from tests.sim.faults import NONE, Faults
from tests.sim.objects import SimObjects
from tests.sim.process import Incarnation, Process
from tests.sim.store import SimBackend
from tests.sim.world import World
from tests.storage.interposed import Interposed, Step, nothing

DOMAIN = "catalog"
FULL = f"tenant=default/workspace=default/locks/{DOMAIN}"


class Contender:
    """One life of a process, and its lease."""

    def __init__(self, contest: "Contest", incarnation: Incarnation, life_ms: int) -> None:
        self.contest = contest
        self.incarnation = incarnation
        self.clock = incarnation.runtime.clock
        self.before: Step = nothing  # faults of its requests, and below of the answers
        self.after: Step = nothing
        far = SimBackend(contest.objects, incarnation)
        line = Interposed(far, before=self._before, after=self._after)
        self.store = Store(line, incarnation.runtime, scope=Scope(), role=Role.API)
        self.lease = Lease(self.store, DOMAIN, holder=incarnation.name, life_ms=life_ms)

    async def hold(self, patience_ms: float = 60_000) -> int:
        """Hold the lease and put that on record."""
        token = await self.lease.hold(patience_ms)
        self.contest.note_turn(self, token)
        return token

    async def work(self, ms: float, step_ms: float = 50) -> None:
        """Commit one thing after the other, each under the lease, with no pause in between."""
        end_ms = self.clock.elapsed_ms() + ms
        while self.clock.elapsed_ms() < end_ms:
            await self.hold()
            await self.clock.sleep(step_ms)
        self.lease.idle()

    async def _before(self, verb: str, key: str) -> None:
        await self.before(verb, key)

    async def _after(self, verb: str, key: str) -> None:
        await self.after(verb, key)


Steps = Callable[[Contender], Coroutine[Any, Any, None]]


class Contest:
    """One store, one virtual time, any number of contenders."""

    def __init__(self, seed: int = 0, faults: Faults = NONE) -> None:
        self.world = World(seed)
        self.objects = SimObjects(self.world, faults)
        self.turns: list[tuple[float, str, int]] = []  # when which contender first held which token
        self.overlaps: list[str] = []
        self.ended: set[str] = set()
        self._contenders: list[Contender] = []

    def join(self, name: str, steps: Steps, *, at_ms: float = 0, life_ms: int = LIFE_MS) -> Process:
        """A process that runs these steps, from `at_ms` on."""

        async def main(incarnation: Incarnation) -> None:
            contender = Contender(self, incarnation, life_ms)
            self._contenders.append(contender)
            await steps(contender)
            self.ended.add(name)

        process = Process(self.world, name, main)
        self.world.after(at_ms, process.start)
        return process

    def note_turn(self, contender: Contender, token: int) -> None:
        """Note a turn, and whether another contender believes to hold the lease at this moment."""
        if not self.turns or self.turns[-1][1:] != (contender.incarnation.name, token):
            self.turns.append((self.world.now_ms, contender.incarnation.name, token))
        for other in self._contenders:
            if other is not contender and other.incarnation.alive and other.lease.token is not None:
                now = self.world.now_ms
                self.overlaps.append(
                    f"{now:.0f}: {contender.incarnation.name} and {other.incarnation.name}"
                )

    def run(self, seconds: float) -> "Contest":
        """Run all processes; an exception that escapes from one is a failure."""
        self.world.end_ms = seconds * 1_000
        try:
            self.world.run()
        finally:
            self.world.close()
        assert not self.world.failures, "\n".join(self.world.failures)
        return self

    def tokens(self) -> list[int]:
        return [token for _, _, token in self.turns]

    def winners(self) -> list[str]:
        return [name.partition(".")[0] for _, name, _ in self.turns]

    def when(self, token: int) -> float:
        """The moment at which a token was first held."""
        return next(at_ms for at_ms, _, noted_token in self.turns if noted_token == token)


def note_key(epoch: int, kind: str = "renewal") -> str:
    return f"{FULL}/{epoch:020d}.{kind}.json"


def crash_after(contest: Contest, name: str, at_ms: float) -> None:
    """A process that takes the lease at once and is killed later."""
    process = contest.join(name, lambda contender: contender.work(1e9))
    contest.world.after(at_ms, process.crash)
