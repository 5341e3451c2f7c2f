"""The ways to run Arco that are put under test: all in one process, or API and compactor apart."""

import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.processes.server import Server, running

TOKEN = "a-secret-of-our-own-processes-for-tests-only"


def place_of(url: str) -> tuple[str, ...]:
    """The flags that name a store."""
    return ("--store", url) if "://" in url else ("--root", url)


@dataclass(frozen=True)
class Deployment:
    """Servers on one store. Any of them may be killed; changes are requested at its APIs."""

    name: str
    place: tuple[str, ...]  # the flags that name the store
    servers: tuple[Server, ...]
    apis: tuple[Server, ...]

    def await_publication(self, within_s: float = 2.0) -> None:
        """Until a manifest appears in a store on local disk: before anybody can be told of it.

        The moment at which a kill is worst; by chance alone it would hardly ever be met.
        """
        flag, root = self.place
        if flag != "--root":
            return
        manifests = Path(root) / "tenant=default/workspace=default/manifests/catalog"
        newest = max(int(each.stem) for each in manifests.glob("*.json") if each.stem.isdigit())
        awaited, until_s = str(manifests / f"{newest + 1:020d}.json"), time.monotonic() + within_s
        while not os.path.exists(awaited) and time.monotonic() < until_s:  # noqa: PTH110 - it is to be quick
            pass

    @asynccontextmanager
    async def up(self) -> AsyncIterator["Deployment"]:
        async with running(*self.servers):
            yield self


def all_in_one(place: tuple[str, ...], logs: Path, *, count: int = 1) -> Deployment:
    """`arco up`, once or several times on the same store."""
    ups = tuple(Server(["up", *place], log=logs / f"up-{number}.log") for number in range(count))
    return Deployment("arco up", place, ups, ups)


def apart(place: tuple[str, ...], logs: Path, *, count: int = 2) -> Deployment:
    """`arco compactor`, and `arco api` twice."""
    compactor = compactor_alone(place, logs)
    apis = tuple(api_alone(place, logs / f"api-{number}.log", compactor) for number in range(count))
    return Deployment(f"arco api x {count} + compactor", place, (compactor, *apis), apis)


def compactor_alone(place: tuple[str, ...], logs: Path, *, token: str = TOKEN) -> Server:
    return Server(["compactor", *place], log=logs / "compactor.log", ARCO_SERVICE_TOKEN=token)


def api_alone(
    place: tuple[str, ...], log: Path, compactor: Server, *, token: str = TOKEN
) -> Server:
    return Server(["api", *place, "--compactor", compactor.url], log=log, ARCO_SERVICE_TOKEN=token)
