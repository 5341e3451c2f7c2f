"""The health report, the reasons to be degraded, and the lag of each domain."""

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest

from arco.api.health_monitor import (
    CompactionFailure,
    CompactionState,
    CompactionStatus,
    DiskSpace,
    DomainLag,
    FixedCompactionStatus,
    HealthObservation,
    RemoteCompaction,
    RemoteReason,
)
from arco.api.health_report import reasons_of
from arco.api.http.limits import HttpLimits
from arco.core.clock import utc
from arco.core.errors import ArcoError, Denied, StoreFull, StoreReadOnly, Unavailable
from arco.core.runtime import Runtime
from arco.storage.backend import Backend
from tests.api.compaction import compact, merge_and_mark
from tests.api.events import observed, post, started
from tests.api.server import Options, Served, served
from tests.api.slow_store import Slow


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


def test_the_lag_is_the_age_of_the_oldest_event_that_is_not_published(
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


def test_health_shows_what_compacts_and_how_far_behind_it_is(
    own: tuple[Served, Hand, Slow],
) -> None:
    api, hand, _ = own
    with api.client() as http:
        post(http, started())
        hand.state = "running"
        document = http.get("/health")
        assert document.status_code == 200
        report = document.json()
        assert (report["status"], report["compaction"]) == ("ok", {"state": "running"})
        lags = {each["domain"]: each["lag_ms"] for each in report["domains"]}
        assert lags["executions"] >= 1
        assert lags["search"] == 0


def test_health_is_degraded_while_events_wait_and_nothing_compacts_them(
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
        actual = [line for line in lines if line.startswith("arco_store_requests_total")]
        assert actual
        return sum(float(line.rpartition(" ")[2]) for line in actual)

    with api.client() as http:
        http.get("/health")
        before = asked(http)
        for _ in range(20):
            assert http.get("/health").status_code == 200
        assert asked(http) < before + 25  # one look is up to 20 requests, 20 looks hundreds


def test_a_server_that_does_not_compact_says_that_another_does(http: httpx2.Client) -> None:
    assert http.get("/health").json()["compaction"] == {"state": "elsewhere"}


RUNNING, STARTING, OFF = (
    FixedCompactionStatus("running"),
    FixedCompactionStatus("starting"),
    FixedCompactionStatus("off", "--no-spark"),
)
FAILING = FixedCompactionStatus(
    "running", None, {"executions": CompactionFailure("Invalid", "a bad line")}
)
GB = 1024**3
QUIET = HealthObservation(domains=())
DOWN = RemoteCompaction(is_reachable=False)
THERE = RemoteCompaction("running")
DISK_OF_THE_OTHER = RemoteReason("store_full", "The disk is full.")


def waits(seconds: float, runtime: Runtime) -> tuple[DomainLag, ...]:
    """Executions whose oldest event came so long ago, by a look that was a while ago itself."""
    received = utc(runtime.clock.now_ms()) - timedelta(seconds=seconds)
    late = DomainLag(
        domain="executions", manifest=3, lag_ms=1, waiting_segments=1, oldest_received_at=received
    )
    return (late, DomainLag(domain="search", manifest=0, lag_ms=0, waiting_segments=0))


@pytest.mark.parametrize(
    ("seconds", "compaction", "compactor", "codes"),
    [
        (25, RUNNING, None, []),
        (35, RUNNING, None, ["events_waiting"]),
        (35, STARTING, None, []),
        (95, STARTING, None, ["events_waiting"]),
        (35, FAILING, None, ["domain_stuck"]),
        (5, FAILING, None, []),
        (1, OFF, None, ["compaction_off"]),
        (1, FixedCompactionStatus("restarting"), None, ["compaction_restarting"]),
        (25, FixedCompactionStatus("elsewhere"), THERE, []),
        (35, FixedCompactionStatus("elsewhere"), THERE, ["events_waiting"]),
        (35, FixedCompactionStatus("elsewhere"), RemoteCompaction("starting"), []),
        (1, FixedCompactionStatus("elsewhere"), DOWN, ["compactor_unreachable"]),
        (35, FixedCompactionStatus("elsewhere"), DOWN, ["compactor_unreachable", "events_waiting"]),
        (
            35,
            FixedCompactionStatus("elsewhere"),
            RemoteCompaction("running", (RemoteReason("domain_stuck", "...", "executions"),)),
            ["domain_stuck"],
        ),
        (
            1,
            FixedCompactionStatus("elsewhere"),
            RemoteCompaction("running", (DISK_OF_THE_OTHER,)),
            ["store_full"],
        ),
    ],
)
def test_events_may_wait_for_a_while_wherever_the_compactor_runs(
    runtime: Runtime,
    seconds: float,
    compaction: CompactionStatus,
    compactor: RemoteCompaction | None,
    codes: list[str],
) -> None:
    seen = HealthObservation(domains=waits(seconds, runtime), compactor=compactor)
    assert [each.code for each in reasons_of(seen, compaction, runtime.clock)] == codes


@pytest.mark.parametrize(
    ("observation", "codes"),
    [
        (QUIET, []),
        (HealthObservation(domains=None), ["store_unreachable"]),
        (replace(QUIET, refusal=StoreFull("full")), ["store_full"]),
        (replace(QUIET, refusal=StoreReadOnly("read-only")), ["store_read_only"]),
        (replace(QUIET, refusal=Denied("no")), ["store_refuses_writes"]),
        (replace(QUIET, refusal=Unavailable("late")), ["store_refuses_writes"]),
        (replace(QUIET, disk=DiskSpace(100 * GB, 500 * GB)), []),
        (replace(QUIET, disk=DiskSpace(GB // 100, 500 * GB)), ["disk_nearly_full"]),
        (replace(QUIET, disk=DiskSpace(GB // 100, GB // 10)), []),
        (replace(QUIET, disk=DiskSpace(0, GB), refusal=StoreFull("full")), ["store_full"]),
    ],
)
def test_a_store_that_cannot_be_relied_on_is_a_reason(
    runtime: Runtime, observation: HealthObservation, codes: list[str]
) -> None:
    assert [each.code for each in reasons_of(observation, RUNNING, runtime.clock)] == codes


def test_a_reason_names_the_failure_of_its_domain(runtime: Runtime) -> None:
    (reason,) = reasons_of(HealthObservation(domains=waits(40, runtime)), FAILING, runtime.clock)
    assert reason.domain == "executions"
    assert "40 s" in reason.message
    assert "fails with Invalid: a bad line" in reason.message


class Refusing(Slow):
    """A store whose creates can be made to fail."""

    def __init__(self, inner: Backend) -> None:
        super().__init__(inner)
        self.refusal: ArcoError | None = None

    async def create(self, key: str, body: bytes) -> None:
        if self.refusal is not None:
            raise self.refusal
        await super().create(key, body)


@pytest.fixture
def refusing(tmp_path: Path) -> Iterator[tuple[Served, Refusing]]:
    stores: list[Refusing] = []

    def wrap(inner: Backend) -> Backend:
        stores.append(Refusing(inner))
        return stores[0]

    with served(
        tmp_path / "store", Options(wrap=wrap, disk=lambda: DiskSpace(5 * 10**9, 10**10))
    ) as api:
        yield api, stores[0]


@pytest.mark.parametrize(
    ("refusal", "code"),
    [(StoreFull("full"), "store_full"), (StoreReadOnly("read-only"), "store_read_only")],
)
def test_a_store_that_refuses_all_writes_is_not_ready_and_is_again_when_it_takes_them(
    refusing: tuple[Served, Refusing], refusal: ArcoError, code: str
) -> None:
    api, store = refusing
    store.refusal = refusal
    with api.client() as http:
        report = http.get("/health").json()
        assert report["status"] == "degraded"
        assert [each["code"] for each in report["reasons"]] == [code]
        ready = http.get("/health/ready")
        assert (ready.status_code, ready.json()["code"]) == (503, code)
        assert ready.headers["retry-after"]
        assert http.get("/health/live").status_code == 200
        assert http.get("/api/v1/catalogs").status_code == 200  # readers go on
        store.refusal = None
        threading.Event().wait(2.2)  # a look is good for two seconds
        assert http.get("/health").json()["status"] == "ok"
        assert http.get("/health/ready").status_code == 200


@dataclass
class Maintained:
    """When the maintenance of domains last succeeded."""

    collected_ms: dict[str, int]
    inspected_ms: dict[str, int]


LAST_FOLD = 'arco_compaction_last_success_timestamp_seconds{domain="executions"}'


def _gauges(http: httpx2.Client) -> dict[str, str]:
    """The samples of a scrape, by name and labels."""
    text = http.get("/metrics").text
    return dict(each.rsplit(" ", 1) for each in text.splitlines() if not each.startswith("#"))


def test_merges_and_marks_are_no_successful_compactions(tmp_path: Path) -> None:
    options = Options(limits=HttpLimits(ready_ms=30_000))
    with served(tmp_path / "store", options) as api, api.client() as http:
        assert LAST_FOLD not in _gauges(http)
        post(http, started())
        compact(api)
        before_s = time.time()
        threading.Event().wait(2.2)  # an observation is used for two seconds
        first = float(_gauges(http)[LAST_FOLD])
        assert 0 <= before_s - first < 60
        merge_and_mark(api, "executions", marks=10)
        threading.Event().wait(2.2)
        assert float(_gauges(http)[LAST_FOLD]) == first
    with served(tmp_path / "store", options) as api, api.client() as http:
        assert float(_gauges(http)[LAST_FOLD]) == first  # below eleven other manifests
        post(http, started())
        compact(api)
        merge_and_mark(api, "executions")
        threading.Event().wait(2.2)
        assert float(_gauges(http)[LAST_FOLD]) > first


def test_gauges_show_waiting_work_and_the_process(refusing: tuple[Served, Refusing]) -> None:
    api, store = refusing
    gauges = api.services.metrics.health
    gauges.watch_connections(lambda: 3)
    gauges.watch_maintenance(Maintained({"catalog": 1_000}, {"search": 2_500}))
    gauges.watch_spark(lambda: {"driver": 140_000_000, "jvm": 900_000_000})
    with api.client() as http:
        store.refusal = StoreFull("full")
        lines = _gauges(http)
    assert lines["arco_http_connections"] == "3.0"
    assert lines["arco_store_free_bytes"] == "5e+09"
    assert lines['arco_collection_last_success_timestamp_seconds{domain="catalog"}'] == "1.0"
    assert lines['arco_inspection_last_success_timestamp_seconds{domain="search"}'] == "2.5"
    assert lines['arco_spark_memory_bytes{process="driver"}'] == "1.4e+08"
    assert lines['arco_spark_memory_bytes{process="jvm"}'] == "9e+08"
    assert lines["arco_store_writable"] == "0.0"
    assert lines['arco_degraded{code="store_full"}'] == "1.0"
    assert lines['arco_waiting_events{domain="executions"}'] == "0.0"
    assert lines['arco_waiting_seconds{domain="executions"}'] == "0.0"
    assert float(lines["process_resident_memory_bytes"]) > 0
    assert any(name.startswith('arco_build_info{python="') for name in lines)
