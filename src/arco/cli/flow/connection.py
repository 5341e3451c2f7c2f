"""The Arco that a command works with: a running one, or one embedded for the life of the command."""

import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from shlex import quote
from typing import TYPE_CHECKING, TypeVar

from arco.cli.flags import DEFAULT_URL, Server
from arco.server.workspace_address import WorkspaceAddress

if TYPE_CHECKING:
    from arco.client import Arco
    from arco.core.runtime import Runtime
    from arco.flow.coordinator.ports import Coordinator

T = TypeVar("T")


@dataclass(frozen=True)
class ArcoTarget:
    """The flags that name an Arco. A directory or store means an embedded one, until the command ends."""

    server: Server
    address: WorkspaceAddress

    @property
    def is_embedded(self) -> bool:
        """Whether the command starts the Arco in its own process."""
        return self.address.root is not None or self.address.store is not None

    def flags(self) -> str:
        """The flags by which another command finds the same Arco; none for the default one."""
        if self.is_embedded:
            return self.address.flags()
        return "" if self.server.url == DEFAULT_URL else f"--url {quote(self.server.url)}"


def _ignore_worker(_worker: str) -> None:
    """The coordinator is in another process, which outlives the workers of this one."""


@dataclass(frozen=True)
class ConnectedArco:
    """An Arco that answers: its URL for engines, and its coordinator of runs."""

    url: str
    coordinator: "Coordinator"
    token: str | None
    host: "Callable[[str], None]" = (
        _ignore_worker  # called with the names of workers in this process
    )


@asynccontextmanager
async def connect_arco(
    target: ArcoTarget,
    runtime: "Runtime",
    *,
    needs_coordinator: bool = True,
    creates_store: bool = False,
) -> AsyncIterator[ConnectedArco]:
    """The Arco behind the flags.

    An embedded one that needs the coordinator is refused while another process has it. A local directory
    that holds no store is refused too, unless the command `creates_store`.
    """
    if target.is_embedded:
        from arco.server.embedded import embedded_server
        from arco.server.embedded_compaction import EmbeddedCompaction

        await EmbeddedCompaction(
            target.address, runtime, lambda line: print(line, file=sys.stderr)
        ).before_command()
        async with embedded_server(
            target.address,
            runtime,
            needs_coordinator=needs_coordinator,
            creates_store=creates_store,
        ) as embedded:
            yield ConnectedArco(embedded.url, embedded.coordinator, None, embedded.host)
        return
    from arco.client.coordinator import HttpCoordinator

    token = target.server.token()
    coordinator = HttpCoordinator(target.server.checked_url(), runtime, token=token)
    try:
        yield ConnectedArco(target.server.url, coordinator, token)
    finally:
        await coordinator.close()


def call_arco(
    target: ArcoTarget,
    work: "Callable[[Arco], T]",
    *,
    needs_coordinator: bool = False,
    creates_store: bool = False,
) -> T:
    """The result of `work` with a client of the Arco behind the flags."""
    if not target.is_embedded:
        with target.server.open() as arco:
            return work(arco)
    from arco.core.runtime import system_runtime
    from arco.core.tasks import run

    runtime = system_runtime()

    async def connected() -> T:
        connection = connect_arco(
            target, runtime, needs_coordinator=needs_coordinator, creates_store=creates_store
        )
        async with connection as embedded:
            return await call_in_thread(target, embedded, runtime, work)

    return run(connected())


async def call_in_thread(
    target: ArcoTarget, connected: ConnectedArco, runtime: "Runtime", work: "Callable[[Arco], T]"
) -> T:
    """The result of `work` with a client of a connected Arco.

    It runs in a thread: an embedded server answers on this very loop, which must not be blocked.
    """
    server = replace(target.server, url=connected.url)

    def call() -> T:
        with server.open() as arco:
            return work(arco)

    return await runtime.tasks.in_thread(call)
