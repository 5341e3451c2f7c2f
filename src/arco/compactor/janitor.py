"""The janitor of a service: collects garbage every so often, for as long as the service runs."""

from collections.abc import Awaitable, Callable, Sequence

from arco.catalog.port import CompactorPort
from arco.compactor.compactor import Tell
from arco.compactor.gc import Collection, collect_garbage
from arco.fold.tier1 import DOMAIN
from arco.storage.collect import DEFAULT_RETENTION_MS
from arco.storage.store import Store

DEFAULT_EVERY_MS = 6 * 3_600_000

# So that a service which is started over and over does not collect over and over.
_FIRST_MS = 10 * 60_000


class Janitor:
    """Runs collections one after the other; what went wrong with the last one stands in `problem`."""

    def __init__(
        self,
        store: Store,
        compactor: CompactorPort | None,
        *,
        domain: str = DOMAIN,
        retention_ms: int = DEFAULT_RETENTION_MS,
        every_ms: int = DEFAULT_EVERY_MS,
        tell: Tell | None = None,
        others: Sequence[Callable[[], Awaitable[object]]] = (),
    ) -> None:
        self._store = store
        self._compactor = compactor
        self._domain = domain
        self._retention_ms = retention_ms
        self._every_ms = every_ms
        self._tell = tell
        self._others = others  # collections of other rooms, which run in the same round
        self._ended = store.runtime.tasks.event()
        self.runs = 0
        self.last: Collection | None = None
        self.problem: Exception | None = None

    async def run(self) -> None:
        """Collect every so often until it is closed; nothing that goes wrong ends it."""
        await self._rest(min(_FIRST_MS, self._every_ms))
        while not self._ended.is_set():
            try:
                self.last = await collect_garbage(
                    self._store,
                    self._compactor,
                    domain=self._domain,
                    retention_ms=self._retention_ms,
                )
                for other in self._others:
                    await other()
                self.problem = None
            except Exception as problem:
                self.problem = problem
                if self._tell is not None:
                    self._tell("collection", problem)
            self.runs += 1
            await self._rest(self._every_ms)

    def close(self) -> None:
        """Begin no other collection; one that is under way may be cancelled at any point."""
        self._ended.set()

    async def _rest(self, ms: float) -> None:
        try:
            await self._store.runtime.tasks.deadline(ms, self._wait())
        except TimeoutError:
            return

    async def _wait(self) -> None:
        await self._ended.wait()
