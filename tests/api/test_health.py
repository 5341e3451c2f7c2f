"""The report on health, and the lag of each domain."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest

from arco.api.health_monitor import CompactionFailure, CompactionState
from arco.api.http.limits import HttpLimits
from arco.storage.backend import Backend
from tests.api.compacting import compact
from tests.api.running import Options, Served, served
from tests.api.sending import observed, post, started
from tests.api.slow import Slow


@dataclass
class Hand:
    """A compaction whose state is set by hand."""

    state: CompactionState = "waiting"
    reason: str | None = None
    failures: dict[str, CompactionFailure] = field(default_factory=dict)


@pytest.fixture
def own(tmp_path: Path) -> Iterator[tuple[Served, Hand, Slow]]:
    hand = Hand()
    stores: list[Slow] = []

    def wrap(inner: Backend) -> Backend:
        stores.append(Slow(inner))
        return stores[0]

    options = Options(compaction=hand, wrap=wrap, limits=HttpLimits(ready_ms=300))
    with served(tmp_path / "store", options) as api:
        yield api, hand, stores[0]
        stores[0].open.set()


def _lag(http: httpx2.Client) -> dict[str, dict[str, Any]]:
    answer = http.get("/api/v1/lag")
    assert answer.status_code == 200
    return {each["domain"]: each for each in answer.json()["items"]}


def test_the_lag_is_the_age_of_the_oldest_event_that_nobody_can_see_yet(
    own: tuple[Served, Hand, Slow],
) -> None:
    api, _, _ = own
    with api.client() as http:
        quiet = _lag(http)
        assert set(quiet) == {"executions", "lineage", "search"}
        assert {(each["lag_ms"], each["manifest"]) for each in quiet.values()} == {(0, -1)}
        post(http, started())
        post(http, started())
        first = _lag(http)["executions"]
        assert first["lag_ms"] >= 1
        assert first["waiting_segments"] == 2
        second = _lag(http)["executions"]
        assert second["lag_ms"] >= first["lag_ms"]
        assert second["oldest_received_at"] == first["oldest_received_at"]
        assert _lag(http)["lineage"]["lag_ms"] == 0
        compact(api)
        post(http, observed())
        after = _lag(http)
        assert (after["executions"]["lag_ms"], after["executions"]["manifest"]) == (0, 0)
        assert "oldest_received_at" not in after["executions"]
        assert after["lineage"]["lag_ms"] >= 1


def test_health_tells_what_compacts_and_how_far_behind_it_is(
    own: tuple[Served, Hand, Slow],
) -> None:
    api, hand, _ = own
    with api.client() as http:
        post(http, started())
        hand.state = "running"
        told = http.get("/health")
        assert told.status_code == 200
        report = told.json()
        assert (report["status"], report["compaction"]) == ("ok", {"state": "running"})
        lags = {each["domain"]: each["lag_ms"] for each in report["domains"]}
        assert lags["executions"] >= 1
        assert lags["search"] == 0


def test_health_is_degraded_while_events_wait_and_nobody_compacts_them(
    own: tuple[Served, Hand, Slow],
) -> None:
    api, hand, _ = own
    hand.state, hand.reason = "off", "started with --no-spark"
    with api.client() as http:
        post(http, started())
        report = http.get("/health").json()
        assert report["status"] == "degraded"
        assert report["compaction"] == {"state": "off", "reason": "started with --no-spark"}
        hand.state, hand.reason = "starting", None
        assert http.get("/health").json()["status"] == "ok"


def test_health_without_events_is_well_without_spark(own: tuple[Served, Hand, Slow]) -> None:
    api, hand, _ = own
    hand.state = "off"
    with api.client() as http:
        assert http.get("/health").json()["status"] == "ok"


def test_health_answers_when_the_store_does_not(own: tuple[Served, Hand, Slow]) -> None:
    api, _, store = own
    store.open.clear()
    with api.client() as http:
        report = http.get("/health").json()
    assert (report["status"], report["domains"]) == ("degraded", None)


def test_asking_for_health_again_and_again_costs_the_store_nothing(
    own: tuple[Served, Hand, Slow],
) -> None:
    api, _, _ = own

    def asked(http: httpx2.Client) -> float:
        lines = http.get("/metrics").text.splitlines()
        found = [line for line in lines if line.startswith("arco_store_requests_total")]
        assert found
        return sum(float(line.rpartition(" ")[2]) for line in found)

    with api.client() as http:
        http.get("/health")
        before = asked(http)
        for _ in range(20):
            assert http.get("/health").status_code == 200
        assert asked(http) < before + 25  # one look is up to 20 requests, 20 looks hundreds


def test_a_server_that_does_not_compact_says_that_another_does(http: httpx2.Client) -> None:
    assert http.get("/health").json()["compaction"] == {"state": "elsewhere"}
