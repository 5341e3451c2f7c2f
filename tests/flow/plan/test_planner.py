"""Which partitions a plan has, why, and in which order."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from arco.core.errors import Invalid
from arco.flow.coordinator.plan_store import check_plan
from arco.flow.plan.explain import explain
from arco.flow.plan.plan import Reason, RetryPolicy
from arco.flow.plan.planner import STALE
from tests.flow.plan.conftest import DAYS, FILES
from tests.flow.plan.model import NOW, PlanningSetup, Row, keys, makers, reasons

DAILY = ["silver.orders", "gold.spend_7d", "gold.a", "gold.balance"]


def test_all_is_missing_at_first(setup: PlanningSetup) -> None:
    planned = setup.plan()
    assert {task.reason for task in planned.tasks} == {Reason.MISSING}
    assert len(planned.tasks) == 10 * len(DAILY) + 1 + 1 + 1  # customers, total, one month
    assert planned.tasks[0].detail == "there are no data yet"
    assert (planned.up_to_date, planned.waiting) == (0, ())


def test_what_was_made_need_not_be_made_again(made: PlanningSetup) -> None:
    planned = made.plan()
    assert (planned.tasks, planned.makers, planned.reads, planned.waiting) == ((), (), (), ())
    assert planned.up_to_date == 10 * len(DAILY) + 3


def test_tasks_stand_by_level_then_name_then_partition(setup: PlanningSetup) -> None:
    planned = setup.plan("silver.* gold.spend_7d", "2026-01-05..2026-01-06")
    assert keys(planned) == [
        "silver.customers",
        "silver.orders@ds=2026-01-05",
        "silver.orders@ds=2026-01-06",
        "gold.spend_7d@ds=2026-01-05",
        "gold.spend_7d@ds=2026-01-06",
    ]
    assert planned.tasks[4].deps == (
        "silver.orders@ds=2026-01-05",
        "silver.orders@ds=2026-01-06",
        "silver.customers",
    )


def test_who_reads_no_partition_of_a_table_waits_until_there_is_the_table(tmp_path: Path) -> None:
    setup = PlanningSetup(
        tmp_path,
        {
            "pipelines/days.py": """
            DAYS = Daily("ds", start="2026-01-05")

            @asset("silver.day", partitions=DAYS)
            def day(): return None

            @asset("gold.change", partitions=DAYS)
            def change(before=table("silver.day", offset=-1)): return before
            """
        },
    )
    first = "gold.change@ds=2026-01-05"

    planned = setup.plan()
    tasks = {task.key: task for task in planned.tasks}
    assert tasks[first].deps == ("silver.day@ds=2026-01-05",)
    assert keys(planned).index(first) > keys(planned).index("silver.day@ds=2026-01-05")
    alone = setup.plan("gold.change", "2026-01-05")
    assert [(each.key, each.lacks) for each in alone.waiting] == [(first, ("silver.day",))]
    setup.run("silver.day", "2026-01-05")
    assert [task.deps for task in setup.plan("gold.change", "2026-01-05").tasks] == [()]


def test_makers_are_reported_with_the_code_that_they_were_planned_with(
    setup: PlanningSetup,
) -> None:
    planned = setup.plan("silver.*")
    code = {each.name: each.code_fingerprint for each in planned.makers}
    assert code == {name: setup.project.fingerprints[name] for name in code}
    assert set(code) == {"default.silver.orders", "default.silver.customers"}


def test_inputs_are_reported_in_the_order_of_the_parameters(setup: PlanningSetup) -> None:
    planned = setup.plan("gold.spend_7d silver.*", "2026-01-05")
    task = planned.tasks[-1]
    assert [planned.reads[number].table for number in task.inputs] == [
        "default.silver.orders",
        "default.silver.customers",
    ]


def test_tasks_that_read_the_same_share_it(tmp_path: Path) -> None:
    setup = PlanningSetup(
        tmp_path,
        {
            "pipelines/p.py": """
            source("raw.rates")
            @asset("silver.a", partitions=Daily("ds", start="2026-01-05"))
            def a(rates=table("raw.rates")): return rates
            """
        },
    )
    setup.lake.fill("raw.rates", "")
    planned = setup.plan()
    assert len(planned.tasks) == 10
    assert [task.inputs for task in planned.tasks] == [(0,)] * 10
    assert len(planned.reads) == 1


def test_a_comment_recomputes_nothing(made: PlanningSetup) -> None:
    text = FILES["pipelines/money.py"].replace("return", "# a remark\n            return")
    made.write({"pipelines/money.py": text})
    assert made.plan().tasks == ()


@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [
        ("CENTS = 100", "CENTS = 1000", True),
        ("amount * CENTS", "amount * CENTS + 1", True),
        ("UNUSED = 7", "UNUSED = 8", False),
    ],
)
def test_a_helper_recomputes_what_uses_it_and_what_is_below(
    made: PlanningSetup, old: str, new: str, changed: bool
) -> None:
    made.write({"pipelines/money.py": FILES["pipelines/money.py"].replace(old, new)})
    planned = made.plan()
    below = {"gold.spend_7d", "gold.a", "gold.balance", "gold.total"}
    assert makers(planned) == ({"silver.orders"} | below if changed else set())
    by_maker = {task.maker: task.reason for task in planned.tasks}
    if changed:
        assert by_maker.pop("default.silver.orders") is Reason.CODE_CHANGED
        assert set(by_maker.values()) == {Reason.UPSTREAM_CHANGED}


def test_code_that_changed_is_named_with_its_fingerprints(made: PlanningSetup) -> None:
    before = made.project.fingerprints["default.gold.total"][:8]
    text = FILES["pipelines/shop.py"].replace("return spend\n", "return spend + 1\n")
    made.write({"pipelines/shop.py": text})
    after = made.project.fingerprints["default.gold.total"][:8]
    planned = made.plan()
    assert keys(planned) == ["gold.total"]
    assert planned.tasks[0].detail == f"the code of gold.total was {before} and is {after}"


def test_a_source_partition_that_changed_recomputes_its_readers_and_their_windows(
    made: PlanningSetup,
) -> None:
    made.lake.fill("raw.orders", "ds=2026-01-12")
    planned = made.plan("silver.orders gold.spend_7d gold.a gold.total")
    assert keys(planned) == [
        "silver.orders@ds=2026-01-12",
        "gold.a@ds=2026-01-12",
        "gold.spend_7d@ds=2026-01-12",
        "gold.spend_7d@ds=2026-01-13",
        "gold.spend_7d@ds=2026-01-14",
        "gold.total",
    ]
    assert {task.reason for task in planned.tasks} == {Reason.UPSTREAM_CHANGED}
    assert planned.tasks[0].detail == "raw.orders is newer: ds=2026-01-12"
    assert planned.tasks[2].detail == "silver.orders is made in this plan: ds=2026-01-12"


def test_an_asset_of_which_only_the_upstream_was_run_is_stale_after_it(made: PlanningSetup) -> None:
    made.lake.run(made.project, made.plan("silver.orders", "2026-01-14", force=True))
    assert reasons(made.plan("gold.a")) == {"gold.a@ds=2026-01-14": "UPSTREAM_CHANGED"}


def test_a_chain_goes_on_from_its_day_to_the_last(made: PlanningSetup) -> None:
    made.lake.fill("raw.orders", "ds=2026-01-11")
    planned = made.plan("silver.orders gold.balance")
    chain = [task for task in planned.tasks if task.maker == "default.gold.balance"]
    assert [task.partition for task in chain] == DAYS[6:]
    assert chain[0].deps == ("silver.orders@ds=2026-01-11",)
    assert [task.deps for task in chain[1:]] == [(before.key,) for before in chain[:-1]]
    made.lake.run(made.project, planned)
    assert made.plan("silver.orders gold.balance").tasks == ()


def test_months_wait_for_the_days_that_they_are_made_of(setup: PlanningSetup) -> None:
    setup.now = datetime(2026, 2, 3, tzinfo=UTC)
    planned = setup.plan("silver.orders gold.month")
    month = next(task for task in planned.tasks if task.partition == "month=2026-01")
    assert month.deps == tuple(f"silver.orders@ds=2026-01-{day:02}" for day in range(5, 32))


def test_a_month_before_the_first_day_reads_nothing_and_stays_made(made: PlanningSetup) -> None:
    assert made.lake.tables["default.gold.month"].keys() == {"month=2025-12"}
    assert made.plan("gold.month").up_to_date == 1


def test_several_outputs_are_one_task_and_complete_only_together(made: PlanningSetup) -> None:
    del made.lake.tables["default.gold.b"]["ds=2026-01-09"]
    planned = made.plan()
    assert reasons(planned) == {"gold.a@ds=2026-01-09": "MISSING"}
    assert planned.tasks[0].detail == "there are no data yet in gold.b"
    assert [target.table for target in planned.makers[0].targets] == [
        "default.gold.a",
        "default.gold.b",
    ]


def test_a_failure_is_reported_with_and_without_older_data(made: PlanningSetup) -> None:
    made.lake.fill("raw.customers", "")
    made.lake.run(made.project, made.plan(), failing={"gold.total"})
    planned = made.plan()
    assert reasons(planned) == {"gold.total": "FAILED"}
    assert planned.tasks[0].detail == "the last attempt failed, older data still exist"
    made.lake.tables["default.gold.total"].clear()
    made.lake.run(made.project, made.plan("gold.total"), failing={"gold.total"})
    assert made.plan().tasks[0].detail == "the last attempt failed, there are no data yet"


def test_a_failed_change_of_code_that_is_taken_back_leaves_nothing_to_do(
    made: PlanningSetup,
) -> None:
    broken = FILES["pipelines/money.py"].replace("CENTS = 100", "CENTS = 10")
    made.write({"pipelines/money.py": broken})
    day = "silver.orders@ds=2026-01-06"
    made.lake.run(made.project, made.plan("silver.orders", "2026-01-06"), failing={day})
    assert reasons(made.plan("silver.orders", "2026-01-06")) == {day: "FAILED"}
    made.write({"pipelines/money.py": FILES["pipelines/money.py"]})
    assert made.plan().tasks == ()
    made.lake.fill("raw.orders", "ds=2026-01-06")
    assert reasons(made.plan("silver.orders")) == {day: "FAILED"}


def test_a_task_that_failed_runs_again_though_nothing_has_changed(tmp_path: Path) -> None:
    setup = PlanningSetup(
        tmp_path, {"pipelines/p.py": "@task(writes=['ops.board'])\ndef board(): return 1\n"}
    )
    setup.run()
    setup.lake.run(setup.project, setup.plan(force=True), failing={"board"})
    assert reasons(setup.plan()) == {"board": "FAILED"}


def test_what_depends_on_a_failure_waits_until_that_is_made(setup: PlanningSetup) -> None:
    setup.lake.run(setup.project, setup.plan(), failing={"silver.orders@ds=2026-01-14"})
    planned = setup.plan("gold.a gold.spend_7d")
    assert planned.tasks == ()
    assert {each.key: each.lacks for each in planned.waiting} == {
        "gold.a@ds=2026-01-14": ("silver.orders@ds=2026-01-14",),
        "gold.spend_7d@ds=2026-01-14": ("silver.orders@ds=2026-01-14",),
    }
    assert "silver.orders@ds=2026-01-14" in reasons(setup.plan())
    assert setup.plan().waiting == ()


def test_who_reads_all_partitions_takes_those_that_are_there_but_not_none(
    setup: PlanningSetup,
) -> None:
    waiting = setup.plan("gold.total").waiting
    assert waiting[0].lacks == ("gold.spend_7d@ds=2026-01-05..2026-01-14",)
    setup.lake.run(setup.project, setup.plan("+gold.spend_7d", "2026-01-05..2026-01-12"))
    planned = setup.plan("gold.total")
    assert keys(planned) == ["gold.total"]
    assert planned.waiting == ()


def test_long_waits_are_reported_as_ranges(setup: PlanningSetup) -> None:
    planned = setup.plan("gold.spend_7d", "2026-01-14")
    assert planned.waiting[0].lacks == (
        "silver.orders@ds=2026-01-08..2026-01-14",
        "silver.customers",
    )


def test_a_source_that_is_not_there_is_waited_for_but_an_empty_partition_is_not(
    setup: PlanningSetup,
) -> None:
    del setup.lake.tables["default.raw.orders"]["ds=2026-01-14"]
    assert "silver.orders@ds=2026-01-14" in keys(setup.plan())
    setup.lake.tables.pop("default.raw.orders")
    planned = setup.plan("silver.orders+", "2026-01-14")
    assert planned.tasks == ()
    assert planned.waiting[0].lacks == ("raw.orders",)
    assert len(planned.waiting) == 5


def test_a_partition_of_a_source_that_fills_later_makes_its_reader_stale(
    setup: PlanningSetup,
) -> None:
    del setup.lake.tables["default.raw.orders"]["ds=2026-01-14"]
    setup.run()
    setup.lake.fill("raw.orders", "ds=2026-01-14")
    assert reasons(setup.plan("silver.orders")) == {
        "silver.orders@ds=2026-01-14": "UPSTREAM_CHANGED"
    }


def test_where_a_source_cannot_distinguish_partitions_its_version_counts(
    setup: PlanningSetup,
) -> None:
    setup.lake.tables["default.raw.orders"].clear()
    for version in ("41", "42"):
        setup.lake.versions["default.raw.orders"] = version
        planned = setup.plan("silver.orders", "2026-01-13..2026-01-14")
        assert len(planned.tasks) == 2


def test_force_makes_all_that_was_chosen_and_nothing_else(made: PlanningSetup) -> None:
    planned = made.plan("silver.orders", "2026-01-13..2026-01-14", force=True)
    assert reasons(planned) == {
        "silver.orders@ds=2026-01-13": "FORCED",
        "silver.orders@ds=2026-01-14": "FORCED",
    }


def test_only_keeps_the_reasons_that_were_asked_for(made: PlanningSetup) -> None:
    made.lake.fill("raw.customers", "")
    made.lake.run(made.project, made.plan(), failing={"gold.total"})
    made.lake.fill("raw.orders", "ds=2026-01-14")
    del made.lake.tables["default.gold.a"]["ds=2026-01-06"]
    missing = made.plan(only=frozenset({Reason.MISSING}))
    assert keys(missing) == ["gold.a@ds=2026-01-06"]
    assert keys(made.plan(only=frozenset({Reason.FAILED}))) == ["gold.total"]
    stale = made.plan(only=STALE)
    assert {task.reason for task in stale.tasks} == {Reason.UPSTREAM_CHANGED}
    assert all("2026-01-14" in key for key in keys(stale))


def test_an_asset_that_must_be_fresh_is_made_again_in_time(tmp_path: Path) -> None:
    setup = PlanningSetup(
        tmp_path,
        {
            "pipelines/p.py": """
            source("raw.rates")
            @asset("silver.rates", checks=[c.freshness("6h")])
            def rates(raw=table("raw.rates")): return raw
            @asset("silver.days", partitions=Daily("ds", start="2026-01-10"),
                   checks=[c.freshness("6h")])
            def days(raw=table("raw.rates")): return raw
            """
        },
    )
    setup.lake.fill("raw.rates", "")
    setup.lake.clock_ms = int(NOW.timestamp() * 1000)
    setup.run()
    setup.now = NOW + timedelta(hours=5)
    assert setup.plan().tasks == ()
    setup.now = NOW + timedelta(hours=7, seconds=60)
    planned = setup.plan()
    assert reasons(planned) == {"silver.rates": "FRESHNESS"}
    assert planned.tasks[0].detail == "it is 7h old, and may be 6h"


def test_a_source_that_is_late_is_warned_of_by_an_attempt_that_reads_it(
    setup: PlanningSetup,
) -> None:
    now_ms = int(NOW.timestamp() * 1000)
    setup.lake.changed_at_ms["default.raw.orders"] = now_ms - 3 * 3_600_000
    assert setup.plan().warnings == ()
    setup.lake.changed_at_ms["default.raw.orders"] = now_ms - 4 * 3_600_000 - 60_000
    assert setup.plan("silver.orders").warnings == (
        "raw.orders was last changed 4h 1m ago, and is expected to be at most 3h old",
    )
    assert setup.plan("silver.customers").warnings == ()


def test_makers_carry_what_a_run_needs_of_them(setup: PlanningSetup) -> None:
    (maker,) = setup.plan("silver.customers").makers
    assert (maker.kind, maker.pool) == ("asset", "small")
    assert maker.retry == RetryPolicy(times=3, delay_ms=30_000, factor=2.0)
    (target,) = maker.targets
    assert (target.format, target.mode, target.alone) == ("iceberg", "replace", True)
    (days,) = setup.plan("silver.orders").makers
    assert (days.targets[0].mode, days.targets[0].alone) == ("replace_partition", False)


def test_pools_come_from_the_project(setup: PlanningSetup) -> None:
    setup.write({"arco.toml": 'name = "shop"\n[pools]\nspark = 4\nsmall = 1\n'})
    planned = setup.plan("silver.customers")
    assert (planned.project, planned.pools) == ("shop", {"small": 1, "spark": 4})


def test_a_task_that_writes_nothing_is_done_once_it_ran_after_its_inputs(
    setup: PlanningSetup,
) -> None:
    report = '@task(reads=["gold.total"])\ndef report(ctx):\n    return None\n'
    setup.write({"pipelines/report.py": report})
    assert setup.run("silver.* gold.spend_7d gold.total report")[-1] == "report"
    ran = setup.lake.tables["report"][""]
    setup.lake.tables["report"][""] = type(ran)(material="run-1", made_at_ms=ran.made_at_ms)
    assert setup.plan("report gold.total").tasks == ()
    setup.lake.run(setup.project, setup.plan("gold.total", force=True))
    assert reasons(setup.plan("report")) == {"report": "UPSTREAM_CHANGED"}
    assert setup.plan("report").makers[0].kind == "task"


def test_a_task_that_writes_nothing_is_never_reported_as_lacking_data(setup: PlanningSetup) -> None:
    setup.write({"pipelines/report.py": "@task()\ndef report(ctx):\n    return None\n"})
    assert setup.plan("report").tasks[0].detail == "it has not run yet"
    setup.lake.run(setup.project, setup.plan("report"), failing={"report"})
    assert setup.plan("report").tasks[0].detail == "the last attempt failed"
    setup.run("report")
    setup.lake.run(setup.project, setup.plan("report", force=True), failing={"report"})
    assert setup.plan("report").tasks[0].detail == "the last attempt failed"


def test_a_task_called_like_a_table_is_refused(setup: PlanningSetup) -> None:
    setup.write({"pipelines/report.py": '@task("gold.total")\ndef report(ctx):\n    return None\n'})
    with pytest.raises(Invalid, match="has the name of a table"):
        setup.plan()


def test_dynamic_values_are_partitions_and_stand_in_the_plan(tmp_path: Path) -> None:
    text = """
        from arco.flow.partition import Dynamic
        source("raw.c")
        @asset("silver.c", partitions=Dynamic("customer"))
        def c(raw=table("raw.c")): return raw
    """
    setup = PlanningSetup(tmp_path, {"pipelines/p.py": text})
    setup.lake.fill("raw.c", "")
    setup.lake.dynamic = {"customer": ("zoo", "acme")}
    planned = setup.plan()
    assert keys(planned) == ["silver.c@customer=acme", "silver.c@customer=zoo"]
    assert planned.dynamic == {"customer": ("zoo", "acme")}


def test_a_task_that_failed_before_there_was_its_table_has_failed(tmp_path: Path) -> None:
    code = "@task(writes=['ops.board'])\ndef board(): return 1\n"
    setup = PlanningSetup(tmp_path, {"pipelines/p.py": code})
    failed = frozenset({Reason.FAILED})
    assert setup.plan(only=failed).tasks == ()
    setup.lake.tables["board"] = {"": Row("FAILED")}  # what is known of the task itself
    assert reasons(setup.plan(only=failed)) == {"board": "FAILED"}
    setup.run()
    assert setup.plan().tasks == ()


@pytest.mark.parametrize(
    ("answer", "line", "message"),
    [
        ('key["month"]', 7, "raised TypeError for 'month=2026-01'"),
        ("'2026-01-05'", 10, "returned '2026-01-05' for 'month=2026-01'"),
    ],
)
def test_a_mapping_of_the_project_that_fails_is_reported_with_its_place_and_who_reads(
    tmp_path: Path, answer: str, line: int, message: str
) -> None:
    code = f"""
        @asset("silver.days", partitions=Daily("ds", start="2026-01-01"))
        def days(): return 1

        def first_of_month(key):
            return {answer}

        @asset("gold.opening", partitions=Monthly("month", start="2026-01"))
        def opening(days=table("silver.days", partitions=first_of_month)): return days
        """
    setup = PlanningSetup(tmp_path, {"pipelines/p.py": code})
    setup.now = datetime(2026, 2, 1, tzinfo=UTC)
    what = f"^pipelines/p.py:{line}: gold.opening cannot read silver.days: .*{message}"
    with pytest.raises(Invalid, match=what):
        setup.plan()
    with pytest.raises(Invalid, match=what):
        explain(setup.project, "silver.days", "2026-01-05", setup.lake.state(), setup.now)


def _prices(folder: Path, keys: str) -> PlanningSetup:
    code = f"""
        DAYS = Daily("day", start="2026-01-10")
        REGIONS = Static("region", ["eu", "us"])

        @asset("silver.last_price", partitions=[DAYS, REGIONS], mode=merge(on=[{keys}]))
        def last_price(): return 1
        """
    return PlanningSetup(folder, {"pipelines/p.py": code})


def test_an_attempt_that_merges_without_the_time_is_warned_of_newer_rows_that_older_ones_replace(
    tmp_path: Path,
) -> None:
    setup = _prices(tmp_path, "'region'")
    setup.run("", "day=..2026-01-12")
    assert setup.plan().warnings == ()  # later ones alone
    assert setup.plan(force=True).warnings == ()  # all in their order
    [warned] = setup.plan("", "day=2026-01-11/region=eu", force=True).warnings
    assert "the rows of day=2026-01-11/region=eu will replace those of later" in warned
    both_days = "day=2026-01-11..2026-01-12"
    assert f"`arco run silver.last_price --force --partitions {both_days}`" in warned
    assert setup.plan("", both_days, force=True).warnings == ()
    setup.run("", "day=2026-01-14/region=us")
    [warned] = setup.plan("", "day=2026-01-13").warnings  # of eu there is nothing later
    assert "the rows of day=2026-01-13/region=us will" in warned


def test_an_attempt_that_merges_by_the_time_too_is_not_warned(tmp_path: Path) -> None:
    setup = _prices(tmp_path, "'region', 'Day'")
    setup.run()
    assert setup.plan("", "2026-01-11", force=True).warnings == ()


def test_a_table_that_another_writer_wrote_to_after_its_pipeline_is_warned_of(
    tmp_path: Path,
) -> None:
    setup = _prices(tmp_path, "'region', 'day'")
    setup.run("", "day=..2026-01-12")
    setup.lake.others_at_ms = {"default.silver.last_price": setup.lake.clock_ms + 1}
    [warned] = setup.plan().warnings
    assert warned.startswith("silver.last_price was changed by PyIceberg/0.12.0")
    assert "`arco run silver.last_price --force`" in warned
    setup.lake.clock_ms += 1_000
    setup.run("", "day=2026-01-13")
    assert setup.plan().warnings == ()  # its pipeline has written since


CUSTOMERS = {
    "pipelines/customers.py": """
    from arco.flow.partition import Dynamic

    @asset("silver.by_customer", partitions=Dynamic("customer"))
    def by_customer(): return None

    @asset("gold.by_customer", partitions=Dynamic("customer"))
    def gold(a=table("silver.by_customer")): return a
    """
}


def test_a_value_that_is_too_long_for_a_task_is_left_out_and_the_others_are_made(
    tmp_path: Path,
) -> None:
    setup = PlanningSetup(tmp_path, CUSTOMERS)
    setup.lake.dynamic = {"customer": ("acme", "x" * 255, "y" * 255)}
    planned = setup.plan()
    check_plan(planned)
    assert keys(planned) == ["silver.by_customer@customer=acme", "gold.by_customer@customer=acme"]
    assert planned.waiting == ()
    [gold, silver] = sorted(planned.warnings)
    assert silver.startswith("silver.by_customer@customer=xxx")
    assert "is left out, and 1 like it" in silver
    assert "at most 255 characters" in gold


def test_a_plan_has_the_values_of_the_dimensions_of_its_project_alone(tmp_path: Path) -> None:
    setup = PlanningSetup(tmp_path, CUSTOMERS)
    setup.lake.dynamic = {"customer": ("acme",), "machine": ("m1", "m2")}
    assert setup.plan().dynamic == {"customer": ("acme",)}
    setup.write(
        {
            "pipelines/machines.py": """
            from arco.flow.partition import Dynamic

            machines = source("raw.machines", partitions=Dynamic("machine"))
            """
        }
    )
    assert setup.plan().dynamic == {"customer": ("acme",), "machine": ("m1", "m2")}
