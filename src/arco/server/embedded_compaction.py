"""Compaction of the events that commands with an embedded server leave in the ledger."""

import subprocess
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from arco.core.imports import is_spark_installed
from arco.core.runtime import Runtime
from arco.server.workspace_address import WorkspaceAddress

if TYPE_CHECKING:
    from arco.compactor.spark.session import Session

_MAX_SEGMENTS_WITH_SPARK = 500  # while Spark is open: some seconds of work
_MAX_SEGMENTS = 2_000  # half of what a fresh read takes, and worth a start of Spark


class EmbeddedCompaction:
    """Compacts the events that commands with an embedded server leave in the ledger.

    Each task leaves a segment or two, and a fresh read of some thousands is refused. No failure here
    fails the command: `show` receives a line, and the next command tries again.
    """

    def __init__(
        self,
        address: WorkspaceAddress,
        runtime: Runtime,
        show: Callable[[str], None],
        *,
        max_segments_with_spark: int = _MAX_SEGMENTS_WITH_SPARK,
        max_segments: int = _MAX_SEGMENTS,
    ) -> None:
        self._address = address
        self._runtime = runtime
        self._show = show
        self._max_segments_with_spark = max_segments_with_spark
        self._max_segments = max_segments

    async def before_command(self) -> None:
        """Before the server is opened: an earlier command may have been killed before it compacted."""
        await self._guard(self._compact(None))

    async def after_command(self, session: "Session | None") -> None:
        """At the end of a command, on its own Spark if that is open."""
        await self._guard(self._compact(session))

    async def _compact(self, session: "Session | None") -> None:
        waiting = await self._waiting_segments()
        limit = self._max_segments if session is None else self._max_segments_with_spark
        if max(waiting.values(), default=0) <= limit:
            return
        segments = f"{sum(waiting.values()):,} segments"
        if session is None and not is_spark_installed():
            self._show(
                f"{segments} wait to be compacted. Install Spark, then run `{self._command()}`."
            )
            return
        self._show(f"Compacting {segments} of events")
        if session is None:
            await self._compact_in_child()
        else:
            from arco.server.compaction import compact_with_session, open_compactor_store

            store = await open_compactor_store(self._address, self._runtime)
            domains = [each for each, count in waiting.items() if count]
            await compact_with_session(session, self._address, store, domains)

    async def _waiting_segments(self) -> dict[str, int]:
        """How many segments of each domain are in no manifest."""
        from arco.compactor.backlog import count_waiting_segments
        from arco.fold.tier2 import TIER2
        from arco.storage.roles import Role
        from arco.storage.store import Store

        if self._address.address().scheme == "memory" or not self._address.exists():
            return {}
        backend, scope = self._address.backend(self._runtime), self._address.scope()
        store = Store(backend, self._runtime, scope=scope, role=Role.COMPACTOR)
        return {domain: await count_waiting_segments(store, domain) for domain in TIER2}

    async def _compact_in_child(self) -> None:
        """In a child process: the Spark of the command is opened later, with other settings."""
        command = [sys.executable, "-P", "-m", "arco.cli.main", "compactor", "--once"]
        arguments = [*command, *self._address.arguments()]

        def run() -> subprocess.CompletedProcess[str]:
            return subprocess.run(arguments, capture_output=True, text=True, check=False)  # noqa: S603 - our own

        child = await self._runtime.tasks.in_thread(run)
        if child.returncode:
            self._failed((child.stderr.strip() or "it ended without a message").splitlines()[-1])

    async def _guard(self, work: Awaitable[None]) -> None:
        try:
            await work
        except Exception as problem:
            self._failed(str(problem) or type(problem).__name__)

    def _failed(self, reason: str) -> None:
        self._show(f"Events could not be compacted: {reason}. Later, run `{self._command()}`.")

    def _command(self) -> str:
        return f"arco compactor --once {self._address.flags()}".rstrip()
