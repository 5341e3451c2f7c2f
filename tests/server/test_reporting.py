"""What nobody waits for is told to somebody."""

import asyncio
import io
import json
from typing import Any

from arco.api.log import make_log
from arco.api.metrics import Metrics
from arco.compactor.inspection import Inspection, Trouble, TroubleKind
from arco.compactor.sweep import Pile
from arco.core.errors import Corrupt, Unavailable
from arco.core.runtime import Runtime
from arco.server.coordinator_lock import lock_taken
from arco.server.doctor import inspection_findings
from arco.server.reporting import (
    ReconcilerReport,
    failure_reporter,
    inspection_reporter,
    log_slow_startup,
    table_failure_reporter,
)
from tests.clocks import HandClock, hand_runtime
from tests.iceberg.workshop import with_table


def lines(stream: io.BytesIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def spoil() -> None:
    raise Corrupt("a secret lies in here")


def test_a_failure_beside_the_requests_is_logged_without_its_words_and_counted(
    runtime: Runtime,
) -> None:
    stream, metrics = io.BytesIO(), Metrics()
    tell = failure_reporter(make_log(stream, runtime.clock), metrics)
    try:
        spoil()
    except Corrupt as problem:
        tell("merge", problem)
    (line,) = lines(stream)
    assert (line["level"], line["event"], line["error"]) == ("error", "merge failed", "Corrupt")
    assert line["places"][-1].endswith(" spoil")
    assert b"secret" not in stream.getvalue()
    assert b'arco_background_failures_total{what="merge"} 1.0' in metrics.render()


def test_words_that_hold_nothing_private_are_logged_too(runtime: Runtime) -> None:
    stream = io.BytesIO()
    failure_reporter(make_log(stream, runtime.clock), Metrics())(
        "collection", Unavailable("no answer came")
    )
    assert lines(stream)[0]["detail"] == "no answer came"


def test_a_table_in_trouble_is_logged_once_for_each_kind_of_it(runtime: Runtime) -> None:
    stream, metrics = io.BytesIO(), Metrics()
    tell = table_failure_reporter(make_log(stream, runtime.clock), metrics)
    for table in ("t", "t", "u", "t"):
        tell(table, Unavailable("no answer came"))
    tell("t", Corrupt("a secret lies in here"))
    said = [(line["table"], line["error"]) for line in lines(stream)]
    assert said == [("t", "Unavailable"), ("u", "Unavailable"), ("t", "Corrupt")]
    assert b"secret" not in stream.getvalue()
    assert b'{what="collection of a table"} 5.0' in metrics.render()


async def test_who_waits_says_so_after_a_few_seconds_with_what_it_met() -> None:
    clock, stream = HandClock(), io.BytesIO()
    async with log_slow_startup(hand_runtime(clock), make_log(stream, clock)) as wait:
        wait.retrying(Unavailable("the bucket of a secret"))
        for _ in range(10):
            await asyncio.sleep(0)
    said = lines(stream)
    assert len(said) > 1  # said again while it lasts
    assert {(line["level"], line["error"]) for line in said} == {("warning", "Unavailable")}
    assert all(line["event"].startswith("waiting for the store") for line in said)
    assert clock.slept_ms[0] == 5_000


async def test_who_need_not_wait_says_nothing(runtime: Runtime) -> None:
    stream = io.BytesIO()
    async with log_slow_startup(runtime, make_log(stream, runtime.clock)):
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.01)
    assert stream.getvalue() == b""


def test_what_an_inspection_has_found_is_logged_and_measured(runtime: Runtime) -> None:
    stream, metrics = io.BytesIO(), Metrics()
    lost = Trouble(
        kind=TroubleKind.SEGMENT,
        path="ledger/lineage/x/000000000001.jsonl",
        explanation="is missing",
        next_step="Restore it.",
    )
    found = Inspection(
        domain="lineage",
        head=3,
        segments=9,
        waiting=2,
        lag_ms=90_000,
        orphans=Pile(objects=4, bytes=400),
        sealed=("x",),
        hints=("manifests/lineage/head.json",),
        troubles=(lost,),
    )
    inspection_reporter(make_log(stream, runtime.clock), metrics)(found)
    sealed, hint, wrong = lines(stream)
    assert (sealed["level"], sealed["stream"], hint["object"]) == ("info", "x", found.hints[0])
    assert (wrong["level"], wrong["event"]) == ("error", "something is wrong in the store")
    assert (wrong["kind"], wrong["object"]) == ("segment", lost.path)
    said = metrics.render()
    for figure in (b"troubles", b"waiting_segments", b"lag_seconds", b"orphan_files"):
        assert b'arco_inspection_%s{domain="lineage"}' % figure in said
    assert b'arco_inspection_lag_seconds{domain="lineage"} 90.0' in said
    told = [each.status.value for each in inspection_findings(found)]
    assert told == ["ok", "note", "note", "note", "failed"]


def test_an_inspection_that_finds_nothing_logs_nothing(runtime: Runtime) -> None:
    stream, metrics = io.BytesIO(), Metrics()
    inspection_reporter(make_log(stream, runtime.clock), metrics)(
        Inspection(domain="search", head=-1)
    )
    assert lines(stream) == []
    assert b'arco_inspection_troubles{domain="search"} 0.0' in metrics.render()


async def test_rounds_of_the_reconciler_are_counted_and_a_failed_one_is_logged() -> None:
    shop, [table_id] = await with_table("t")
    await shop.a.settle()
    api, stream, metrics = shop.api(), io.BytesIO(), Metrics()
    clock, reconciler = shop.inner.runtime.clock, api.iceberg.reconciler
    reconciler.observe(ReconcilerReport(make_log(stream, clock), metrics, clock))
    trouble = Unavailable("no answer came")

    api.line.fail("get", "iceberg_doubts/", trouble)
    await reconciler.try_round()
    api.line.mend()
    api.line.fail("get", f"iceberg_pointers/{table_id}", trouble)
    await reconciler.try_round()
    api.line.mend()
    await reconciler.try_round()

    said = [(line["event"], line.get("table")) for line in lines(stream)]
    assert said == [
        ("reconciliation failed", None),
        ("reconciliation of a table failed", table_id),
    ]
    rendered = metrics.render().decode().splitlines()
    for figure in (
        'rounds_total{kind="full",outcome="failed"} 1.0',
        'rounds_total{kind="full",outcome="ok"} 1.0',
        'rounds_total{kind="short",outcome="ok"} 1.0',
        "tables_total 2.0",
        "table_failures_total 1.0",
    ):
        assert f"arco_reconciler_{figure}" in rendered
    assert 'arco_background_failures_total{what="reconciliation"} 1.0' in rendered


def test_that_another_process_coordinates_runs_is_no_failure(runtime: Runtime) -> None:
    stream, metrics = io.BytesIO(), Metrics()
    tell = failure_reporter(make_log(stream, runtime.clock), metrics)
    tell("coordinating runs", lock_taken("/data/arco", "process 7"))
    (line,) = lines(stream)
    assert (line["level"], line["error"]) == ("info", "CoordinatorLockTaken")
    assert b"arco_background_failures_total{" not in metrics.render()
