"""The janitor of a service: every so often it collects garbage and looks for what was lost.

One domain after the other: trouble with one does not keep the others from being cleaned. What an inspection
has found, it tells `found`; what went wrong, `tell`.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from arco.catalog.port import CompactorPort
from arco.compactor.catalog_compactor import FailureCallback
from arco.compactor.domains import DOMAINS
from arco.compactor.garbage_collection import GcReport, collect_garbage
from arco.compactor.inspection import Inspection, inspect_domain
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
        domains: Sequence[str] = DOMAINS,
        retention_ms: int = DEFAULT_RETENTION_MS,
        every_ms: int = DEFAULT_EVERY_MS,
        tell: FailureCallback | None = None,
        found: Callable[[Inspection], None] | None = None,
        others: Sequence[Callable[[], Awaitable[object]]] = (),
    ) -> None:
        self._store = store
        self._compactor = compactor
        self._domains = domains
        self._retention_ms = retention_ms
        self._every_ms = every_ms
        self._tell = tell
        self._found = found
        self._others = others  # collections of other rooms, which run in the same round
        self._ended = store.runtime.tasks.event()
        self.runs = 0
        self.last: dict[str, GcReport] = {}  # by domain
        self.inspected: dict[str, Inspection] = {}
        self.collected_ms: dict[str, int] = {}  # when each domain was last done, since 1970
        self.inspected_ms: dict[str, int] = {}
        self.problem: Exception | None = None

    async def run(self) -> None:
        """Collect every so often until it is closed; nothing that goes wrong ends it."""
        await self._rest(min(_FIRST_MS, self._every_ms))
        while not self._ended.is_set():
            await self._round()
            self.runs += 1
            await self._rest(self._every_ms)

    async def _round(self) -> None:
        self.problem = None
        for domain in self._domains:
            await self._guard("collection", partial(self._collect, domain))
        for other in self._others:
            await self._guard("collection", other)
        for domain in self._domains:
            await self._guard("inspection", partial(self._inspect, domain))

    async def _collect(self, domain: str) -> None:
        self.last[domain] = await collect_garbage(
            self._store, self._compactor, domain=domain, retention_ms=self._retention_ms
        )
        self.collected_ms[domain] = self._store.runtime.clock.now_ms()

    async def _inspect(self, domain: str) -> None:
        inspection = self.inspected[domain] = await inspect_domain(self._store, domain)
        self.inspected_ms[domain] = self._store.runtime.clock.now_ms()
        if self._found is not None:
            self._found(inspection)

    async def _guard(self, what: str, work: Callable[[], Awaitable[object]]) -> None:
        try:
            await work()
        except Exception as problem:
            self.problem = problem
            if self._tell is not None:
                self._tell(what, problem)

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
