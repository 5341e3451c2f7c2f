"""Why a process is degraded: each cause by its code, and what it means for being ready."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from arco.api.health_monitor import (
    CompactionFailure,
    CompactionStatus,
    DiskSpace,
    DomainLag,
    FixedCompactionStatus,
    HealthObservation,
    RemoteCompaction,
    RemoteReason,
)
from arco.api.health_report import reasons_of
from arco.core.clock import utc
from arco.core.errors import ArcoError, Denied, StoreFull, StoreReadOnly, Unavailable
from arco.core.runtime import Runtime
from arco.storage.backend import Backend
from tests.api.running import Options, Served, served
from tests.api.slow import Slow

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

    with served(tmp_path / "store", Options(wrap=wrap)) as api:
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


def test_gauges_tell_of_what_waits_and_of_the_process(refusing: tuple[Served, Refusing]) -> None:
    api, store = refusing
    with api.client() as http:
        store.refusal = StoreFull("full")
        gauges = http.get("/metrics").text
    lines = dict(each.rsplit(" ", 1) for each in gauges.splitlines() if not each.startswith("#"))
    assert lines["arco_store_writable"] == "0.0"
    assert lines['arco_degraded{code="store_full"}'] == "1.0"
    assert lines['arco_waiting_events{domain="executions"}'] == "0.0"
    assert lines['arco_waiting_seconds{domain="executions"}'] == "0.0"
    assert float(lines["process_resident_memory_bytes"]) > 0
    assert any(name.startswith('arco_build_info{python="') for name in lines)
