"""The requests to a store, and the round trips that they took."""

from arco.core.scope import Scope
from arco.storage.backend import Backend, ObservedBackend
from arco.storage.retry import StoreRetryPolicy
from arco.storage.roles import Role
from arco.storage.store import Store
from tests.clocks import HandClock, hand_runtime
from tests.storage.interposed import Interposed

IMPATIENT = StoreRetryPolicy(attempts=4, first_pause_ms=1, budget_ms=1_000)


class Recorder:
    """Records every request, and when it was under way.

    Round trips are the most requests of which no two were under way together: what has to wait for what.
    Hints do not count, as no caller waits for one.
    """

    def __init__(self) -> None:
        self.requests: list[tuple[str, str]] = []
        self._moment = 0
        self._begun: dict[str, list[int]] = {}
        self._spans: list[tuple[int, int]] = []  # end and begin, in moments

    def request(self, verb: str, key: str, outcome: str, ms: float) -> None:
        self.requests.append((verb, key))

    async def begin(self, verb: str, key: str) -> None:
        self._moment += 1
        self._begun.setdefault(f"{verb} {key}", []).append(self._moment)

    async def end(self, verb: str, key: str) -> None:
        self._moment += 1
        begun = self._begun[f"{verb} {key}"].pop(0)
        if verb != "put":
            self._spans.append((self._moment, begun))

    @property
    def round_trips(self) -> int:
        trips, free = 0, 0
        for end, begin in sorted(self._spans):
            if begin > free:
                trips, free = trips + 1, end
        return trips

    def clear(self) -> None:
        self.requests.clear()
        self._spans.clear()

    def verbs(self) -> list[str]:
        return [verb for verb, _ in self.requests]

    def keys(self) -> list[str]:
        """The last parts of the keys that were asked for, in order."""
        return [key.rpartition("/")[2] for _, key in self.requests]


def recorded_store(backend: Backend, recorder: Recorder, clock: HandClock, role: Role) -> Store:
    """A handle on `backend` whose requests are recorded."""
    runtime = hand_runtime(clock)
    watched = Interposed(backend, before=recorder.begin, after=recorder.end)
    observed = ObservedBackend(watched, recorder, clock)
    return Store(observed, runtime, scope=Scope(), role=role, retry=IMPATIENT)
