"""An API whose compactor is down, killed, asleep or a stranger: never a false failure (law 9)."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.processes.deployment import apart, api_alone, compactor_alone, place_of
from tests.processes.load_run import wait_for_catalog
from tests.processes.server import Server, eventually, running

CATALOG = "/api/v1/catalogs/default"


@dataclass(frozen=True)
class Pair:
    """An API that is up, and the compactor that it was given."""

    http: httpx2.AsyncClient
    api: Server
    compactor: Server

    async def create(self, name: str, key: str | None = None) -> httpx2.Response:
        """Ask for a schema."""
        headers = {} if key is None else {"Idempotency-Key": key}
        return await self.http.post(f"{CATALOG}/schemas", json={"name": name}, headers=headers)

    async def answered(self, name: str, key: str) -> httpx2.Response:
        """The answer to a request with a key, as a client gets it that repeats."""
        for _ in range(100):
            answer = await self.create(name, key)
            assert answer.status_code in {201, 503, 504}, answer.text
            if answer.status_code == 201:
                return answer
            await asyncio.sleep(0.1)
        raise AssertionError("no answer")

    async def schemas(self) -> list[dict[str, Any]]:
        answer = await self.http.get(f"{CATALOG}/schemas")
        schemas: list[dict[str, Any]] = answer.raise_for_status().json()["items"]
        return schemas

    async def names(self) -> list[str]:
        return [schema["name"] for schema in await self.schemas()]

    async def names_changed(self, operation: str) -> list[str]:
        """What was done, by the name of the object, from the commits themselves."""
        page = (await self.http.get("/api/v1/commits", params={"page_size": "1000"})).json()
        done = [each for item in page["items"] for each in item["commit"].get("deeds", [])]
        return [each["name"] for each in done if each["operation"] == operation]


@asynccontextmanager
async def pair(root: Path) -> AsyncIterator[Pair]:
    """Both processes up, on a workspace that has its catalog."""
    deployment = apart(place_of(str(root / "store")), root, count=1)
    compactor, api = deployment.servers
    async with running(compactor, api), client(api) as http:
        await wait_for_catalog(api.url)
        yield Pair(http, api, compactor)


@asynccontextmanager
async def client(server: Server) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=server.url, trust_env=False, timeout=40) as http:
        yield http


async def test_without_a_compactor_the_api_reads_and_as_soon_as_there_is_one_it_writes(
    tmp_path: Path,
) -> None:
    async with pair(tmp_path) as at:
        assert (await at.create("before")).status_code == 201
        at.compactor.kill()
        refused = await at.create("meanwhile")
        assert refused.status_code == 503
        assert int(refused.headers["retry-after"]) >= 1
        assert refused.json()["code"] == "unavailable"
        assert await at.names() == ["before"]
        # Ready is about reading: who takes it out of service for this takes the reads with it.
        assert (await at.http.get("/health/ready")).status_code == 200
        await at.compactor.start()
        assert (await at.answered("after", "k")).status_code == 201
        assert await at.names() == ["after", "before"]


async def test_an_api_that_comes_before_its_compactor_makes_the_first_catalog_when_it_is_there(
    tmp_path: Path,
) -> None:
    place = place_of(str(tmp_path / "store"))
    compactor = compactor_alone(place, tmp_path)
    api = api_alone(place, tmp_path / "api.log", compactor)
    try:
        async with running(api), client(api) as http:
            assert (await http.get("/health/ready")).status_code == 503  # there is no catalog yet
            assert (await http.get("/api/v1/catalogs")).json()["items"] == []
            refused = await http.post("/api/v1/catalogs", json={"name": "sales"})
            assert refused.status_code == 503
            assert "retry-after" in refused.headers
            await compactor.start()
            await wait_for_catalog(api.url)
            assert (await http.get("/health/ready")).status_code == 200
            made = await http.post("/api/v1/catalogs", json={"name": "sales"})
            assert made.status_code == 201
    finally:
        compactor.end()


async def test_a_compactor_killed_in_the_middle_of_a_call_leaves_nothing_that_is_not_repaired(
    tmp_path: Path,
) -> None:
    async with pair(tmp_path) as at:
        assert (await at.create("first")).status_code == 201
        at.compactor.send(signal.SIGSTOP)
        asking = asyncio.gather(at.create("plain"), at.create("keyed", "k"))
        await asyncio.sleep(0.5)  # the call has been sent, and is not answered
        at.compactor.kill()
        for answer in await asking:
            assert answer.status_code in {503, 504}
        await at.compactor.start()
        kept = await at.answered("keyed", "k")
        assert (await at.create("next")).status_code == 201
        assert (await at.create("keyed", "k")).content == kept.content
        # Nobody can have read the call, so the one without a key was not made.
        assert sorted(await at.names()) == ["first", "keyed", "next"]


@pytest.mark.interop  # it waits out the time that a compactor has to answer
async def test_a_commit_that_a_slow_compactor_publishes_late_is_found_and_not_made_twice(
    tmp_path: Path,
) -> None:
    async with pair(tmp_path) as at:
        assert (await at.create("first")).status_code == 201
        at.compactor.send(signal.SIGSTOP)
        asking = asyncio.gather(at.create("plain"), at.create("keyed", "k"))
        await asyncio.sleep(0.2)
        assert await at.names() == ["first"]  # reads do not wait for it
        for answer in await asking:
            assert answer.status_code == 504
            assert answer.json()["code"] == "unknown_outcome"
        at.compactor.send(signal.SIGCONT)

        async def look() -> bool:
            return "keyed" in await at.names()

        await eventually(look)
        late = {schema["name"]: schema for schema in await at.schemas()}
        repeated = await at.answered("keyed", "k")
        assert repeated.json() == late["keyed"]
        assert (await at.create("keyed", "k")).content == repeated.content
        assert (await at.create("keyed")).status_code == 409
        done = await at.names_changed("create_schema")
        assert sorted(done) == sorted(f"default.{name}" for name in late)


async def test_a_stop_waits_for_requests_in_flight_and_reports_their_results(
    tmp_path: Path,
) -> None:
    async with pair(tmp_path) as at:
        assert (await at.create("first")).status_code == 201
        at.compactor.send(signal.SIGSTOP)
        asking = [asyncio.create_task(at.create(f"s{number}")) for number in range(8)]

        async def look() -> bool:
            metrics = await at.http.get("/metrics")
            return "\narco_http_requests_in_flight 9.0\n" in metrics.text  # this one too

        await eventually(look)
        at.api.send(signal.SIGTERM)
        await asyncio.sleep(0.5)
        at.compactor.send(signal.SIGCONT)
        assert [(await each).status_code for each in asking] == [201] * 8
        assert await at.api.exit_code(within_s=30) == 0
        await at.api.start()
        assert sorted(await at.names()) == ["first", *(f"s{number}" for number in range(8))]


async def test_an_api_with_the_wrong_service_token_says_that_it_cannot_write_now(
    tmp_path: Path,
) -> None:
    async with pair(tmp_path) as at:
        stranger = api_alone(
            place_of(str(tmp_path / "store")),
            tmp_path / "stranger.log",
            at.compactor,
            token="another-secret",
        )
        async with running(stranger), client(stranger) as http:
            refused = await http.post(f"{CATALOG}/schemas", json={"name": "no"})
            assert refused.status_code == 503
            assert "retry-after" in refused.headers
            listed = await http.get(f"{CATALOG}/schemas")
            assert listed.json()["items"] == []
        async with client(at.compactor) as direct:
            for headers in ({}, {"Authorization": "Bearer another-secret"}):
                answer = await direct.post("/internal/merge", json={}, headers=headers)
                assert answer.status_code == 401


async def test_health_says_that_the_compactor_does_not_answer_and_readers_go_on(
    tmp_path: Path,
) -> None:
    async with pair(tmp_path) as at:

        async def reasons() -> list[str]:
            report = (await at.http.get("/health")).json()
            assert report["status"] == ("degraded" if report["reasons"] else "ok")
            return [each["code"] for each in report["reasons"]]

        async def is_missed() -> bool:
            return await reasons() == ["compactor_unreachable"]

        async def is_back() -> bool:
            return await reasons() == []

        await eventually(is_back)
        at.compactor.send(signal.SIGSTOP)
        await eventually(is_missed)
        assert (await at.http.get("/health/ready")).status_code == 200
        gauges = (await at.http.get("/metrics")).text
        assert "\narco_compactor_reachable 0.0\n" in gauges
        assert '\narco_degraded{code="compactor_unreachable"} 1.0\n' in gauges
        at.compactor.send(signal.SIGCONT)
        await eventually(is_back)
        async with client(at.compactor) as direct:
            assert (await direct.get("/health")).json()["status"] == "ok"
        at.compactor.kill()
        await eventually(is_missed)
