"""What a store was asked, and how many trips to it that took."""

from arco.core.scope import Scope
from arco.storage.backend import Backend
from arco.storage.observed import ObservedBackend
from arco.storage.retry import Retry
from arco.storage.roles import Role
from arco.storage.store import Store
from tests.clocks import HandClock, hand_runtime
from tests.storage.interposed import Interposed

IMPATIENT = Retry(attempts=4, first_pause_ms=1, budget_ms=1_000)


class Recorder:
    """Takes down every request; requests that are under way together are one round trip."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str]] = []
        self.round_trips = 0
        self._under_way = 0

    def request(self, verb: str, key: str, outcome: str, ms: float) -> None:
        self.requests.append((verb, key))

    async def begin(self, verb: str, key: str) -> None:
        self.round_trips += self._under_way == 0
        self._under_way += 1

    async def end(self, verb: str, key: str) -> None:
        self._under_way -= 1

    def clear(self) -> None:
        self.requests.clear()
        self.round_trips = 0

    def verbs(self) -> list[str]:
        return [verb for verb, _ in self.requests]

    def keys(self) -> list[str]:
        """The last parts of the keys that were asked for, in order."""
        return [key.rpartition("/")[2] for _, key in self.requests]


def recorded_store(backend: Backend, recorder: Recorder, clock: HandClock, role: Role) -> Store:
    """A handle on `backend` whose requests are taken down."""
    runtime = hand_runtime(clock)
    watched = Interposed(backend, before=recorder.begin, after=recorder.end)
    observed = ObservedBackend(watched, recorder, clock)
    return Store(observed, runtime, scope=Scope(), role=role, retry=IMPATIENT)
