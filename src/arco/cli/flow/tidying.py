"""Tidying up after a command that brings its own Arco: what it has told is compacted now and then.

Each task leaves a segment or two in the ledger, and a fresh read takes all that are in no manifest: beyond
some thousands it is refused. Where Arco is served somebody compacts them all the time; here nobody else
does. Nothing of this makes a command fail: what could not be done is said, and done the next time.
"""

import subprocess
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from arco.cli.keep import Keep
from arco.cli.place import Place
from arco.cli.spark import is_installed
from arco.core.runtime import Runtime

if TYPE_CHECKING:
    from arco.compactor.spark.session import Session

MANY = 500  # with Spark at hand: some seconds of work
FAR_TOO_MANY = 2_000  # half of what a fresh read takes, and worth a start of Spark

_MEMORY = "memory"


class Tidying:
    """Compacts the events of a place; `say` hears of it in a line."""

    def __init__(
        self,
        place: Place,
        runtime: Runtime,
        say: Callable[[str], None],
        *,
        many: int = MANY,
        far_too_many: int = FAR_TOO_MANY,
    ) -> None:
        self._place = place
        self._runtime = runtime
        self._say = say
        self._many = many
        self._far_too_many = far_too_many

    async def before(self) -> None:
        """Before Arco is opened: who left it may have been killed before anything was compacted."""
        await self._guarded(lambda: self._begin(None))

    async def after(self, session: "Session | None") -> None:
        """At the end of a command, on its own Spark if it has one open."""
        await self._guarded(lambda: self._begin(session))

    async def _begin(self, session: "Session | None") -> None:
        waiting = await self._waiting()
        most = self._far_too_many if session is None else self._many
        if max(waiting.values(), default=0) <= most:
            return
        told = f"{sum(waiting.values()):,} segments"
        if session is None and not is_installed():
            self._say(f"{told} wait to be compacted. Install Spark, then run `{self._command()}`.")
            return
        self._say(f"Tidying up {told}")
        if session is None:
            await self._elsewhere()
        else:
            await self._here(session, [each for each, count in waiting.items() if count])

    async def _waiting(self) -> dict[str, int]:
        """How many segments of each domain are in no manifest."""
        from arco.compactor.behind import waiting_segments
        from arco.fold.tier2 import TIER2
        from arco.storage.roles import Role
        from arco.storage.store import Store

        if self._place.address().scheme == _MEMORY or not self._place.is_there():
            return {}
        backend, scope = self._place.backend(self._runtime), self._place.scope()
        store = Store(backend, self._runtime, scope=scope, role=Role.COMPACTOR)
        return {domain: await waiting_segments(store, domain) for domain in TIER2}

    async def _here(self, session: "Session", domains: list[str]) -> None:
        from arco.cli.tier2.on_spark import compact_beside, open_compactor_store

        store = await open_compactor_store(self._place, self._runtime)
        await compact_beside(session, self._place, Keep(), store, domains)

    async def _elsewhere(self) -> None:
        """In a process of its own: a Spark that was opened here for this would be the wrong one later."""
        command = [sys.executable, "-P", "-m", "arco.cli.main", "compactor", "--once"]
        call = [*command, *self._place.arguments()]

        def work() -> subprocess.CompletedProcess[str]:
            return subprocess.run(call, capture_output=True, text=True, check=False)  # noqa: S603 - our own

        done = await self._runtime.tasks.in_thread(work)
        if done.returncode:
            self._failed((done.stderr.strip() or "it ended without a word").splitlines()[-1])

    async def _guarded(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except Exception as problem:
            self._failed(str(problem) or type(problem).__name__)

    def _failed(self, why: str) -> None:
        self._say(f"Events could not be compacted: {why}. Later, run `{self._command()}`.")

    def _command(self) -> str:
        return f"arco compactor --once {self._place.flags()}".rstrip()
