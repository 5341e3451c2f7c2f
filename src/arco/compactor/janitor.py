"""The janitor of a service: it periodically collects garbage and inspects all domains.

It goes through the domains one by one; a failure in one does not stop the others. Results of inspections go
to `on_inspection`, failures to `on_failure`.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from arco.catalog.compactor_port import CompactorPort
from arco.compactor.catalog_compactor import FailureCallback
from arco.compactor.domains import DOMAINS
from arco.compactor.garbage_collection import collect_garbage
from arco.compactor.inspection import Inspection, inspect_domain
from arco.storage.chain_gc import DEFAULT_RETENTION_MS
from arco.storage.store import Store

DEFAULT_EVERY_MS = 6 * 3_600_000

# So that a service that restarts often does not collect at each start.
_FIRST_MS = 10 * 60_000


class Janitor:
    """Runs a round of collections and inspections every `every_ms`; `problem` is the last failure."""

    def __init__(
        self,
        store: Store,
        compactor: CompactorPort | None,
        *,
        domains: Sequence[str] = DOMAINS,
        retention_ms: int = DEFAULT_RETENTION_MS,
        every_ms: int = DEFAULT_EVERY_MS,
        on_failure: FailureCallback | None = None,
        on_inspection: Callable[[Inspection], None] | None = None,
        other_collections: Sequence[Callable[[], Awaitable[object]]] = (),
    ) -> None:
        self._store = store
        self._compactor = compactor
        self._domains = domains
        self._retention_ms = retention_ms
        self._every_ms = every_ms
        self._on_failure = on_failure
        self._on_inspection = on_inspection
        self._other_collections = other_collections  # of other packages, in the same round
        self._closed = store.runtime.tasks.event()
        self.runs = 0
        # When each domain was last collected and inspected, in Unix time.
        self.collected_ms: dict[str, int] = {}
        self.inspected_ms: dict[str, int] = {}
        self.problem: Exception | None = None

    async def run(self) -> None:
        """Run rounds until closed; failures are reported and do not end it."""
        await self._sleep(min(_FIRST_MS, self._every_ms))
        while not self._closed.is_set():
            await self._round()
            self.runs += 1
            await self._sleep(self._every_ms)

    async def _round(self) -> None:
        self.problem = None
        for domain in self._domains:
            await self._guard("collection", partial(self._collect, domain))
        for collect in self._other_collections:
            await self._guard("collection", collect)
        for domain in self._domains:
            await self._guard("inspection", partial(self._inspect, domain))

    async def _collect(self, domain: str) -> None:
        await collect_garbage(
            self._store, self._compactor, domain=domain, retention_ms=self._retention_ms
        )
        self.collected_ms[domain] = self._store.runtime.clock.now_ms()

    async def _inspect(self, domain: str) -> None:
        inspection = await inspect_domain(self._store, domain)
        self.inspected_ms[domain] = self._store.runtime.clock.now_ms()
        if self._on_inspection is not None:
            self._on_inspection(inspection)

    async def _guard(self, work_name: str, work: Callable[[], Awaitable[object]]) -> None:
        try:
            await work()
        except Exception as problem:
            self.problem = problem
            if self._on_failure is not None:
                self._on_failure(work_name, problem)

    def close(self) -> None:
        """Start no other round; one in progress may be cancelled at any point."""
        self._closed.set()

    async def _sleep(self, ms: float) -> None:
        try:
            await self._store.runtime.tasks.deadline(ms, self._wait())
        except TimeoutError:
            return

    async def _wait(self) -> None:
        await self._closed.wait()
