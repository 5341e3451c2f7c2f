"""The Arco that a command works with: one that runs, or one for the life of the command."""

import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from shlex import quote
from typing import TYPE_CHECKING, TypeVar

from arco.cli.flags import DEFAULT_URL, Server
from arco.server.workspace_address import WorkspaceAddress

if TYPE_CHECKING:
    from arco.cli.remote import Remote
    from arco.core.runtime import Runtime
    from arco.flow.coordinator.ports import Coordinator

T = TypeVar("T")


@dataclass(frozen=True)
class Reach:
    """The flags that name an Arco. A directory or store means one of our own, until the command ends."""

    server: Server
    place: WorkspaceAddress

    @property
    def is_own(self) -> bool:
        """Whether the command brings its own."""
        return self.place.root is not None or self.place.store is not None

    def flags(self) -> str:
        """The flags by which another command finds the same Arco; none for the default one."""
        if self.is_own:
            return self.place.flags()
        return "" if self.server.url == DEFAULT_URL else f"--url {quote(self.server.url)}"


def _elsewhere(_worker: str) -> None:
    """The book is kept by another process, which outlives this one."""


@dataclass(frozen=True)
class Reached:
    """An Arco that answers: its URL for engines, and its book of runs."""

    url: str
    coordinator: "Coordinator"
    token: str | None
    host: "Callable[[str], None]" = _elsewhere  # to be told of workers in this process


@asynccontextmanager
async def reached(
    reach: Reach, runtime: "Runtime", *, needs_coordinator: bool = True
) -> AsyncIterator[Reached]:
    """The Arco behind the flags; `needs_coordinator` refuses an embedded one while another coordinates."""
    if reach.is_own:
        from arco.server.embedded import embedded_server
        from arco.server.ledger_tidier import LedgerTidier

        await LedgerTidier(reach.place, runtime, lambda line: print(line, file=sys.stderr)).before()
        async with embedded_server(
            reach.place, runtime, needs_coordinator=needs_coordinator
        ) as here:
            yield Reached(here.url, here.coordinator, None, here.host)
        return
    from arco.cli.flow.over_http import HttpCoordinator

    token = reach.server.token()
    coordinator = HttpCoordinator(reach.server.url, runtime, token=token)
    try:
        yield Reached(reach.server.url, coordinator, token)
    finally:
        await coordinator.close()


def ask(reach: Reach, work: "Callable[[Remote], T]", *, needs_coordinator: bool = False) -> T:
    """What `work` finds out of the Arco behind the flags, by its REST API; most of it needs no book."""
    if not reach.is_own:
        with reach.server.open() as remote:
            return work(remote)
    from arco.core.runtime import system_runtime
    from arco.core.tasks import run

    runtime = system_runtime()

    async def within() -> T:
        async with reached(reach, runtime, needs_coordinator=needs_coordinator) as arco:
            server = replace(reach.server, url=arco.url)

            def call() -> T:
                with server.open() as remote:
                    return work(remote)

            # The server answers on this very loop, so nobody may hold it up.
            return await runtime.tasks.in_thread(call)

    return run(within())
