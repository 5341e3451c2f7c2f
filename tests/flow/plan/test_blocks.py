"""Rows that were appended once are not appended again unless the user asks for it."""

from pathlib import Path

import pytest

from arco.flow.plan.explain import explain
from arco.flow.plan.plan import Plan, Reason, plan_document
from arco.flow.plan.table_state import ColumnChange, LastAttempt
from tests.flow.plan.conftest import FILES
from tests.flow.plan.model import PlanningSetup, keys, reasons

PIPELINE = """
    DAYS = Daily("ds", start="2026-01-13")
    source("raw.orders", partitions=DAYS)

    @asset("silver.orders", partitions=DAYS)
    def orders(raw=table("raw.orders")):
        return raw

    @asset("gold.log", partitions=DAYS, mode="append"{options})
    def log(orders=table("silver.orders")):
        return orders.limit({limit})

    @asset("gold.report", partitions=DAYS)
    def report(log=table("gold.log")):
        return log
"""
DAYS = ["ds=2026-01-13", "ds=2026-01-14"]
LOGS = [f"gold.log@{day}" for day in DAYS]


def pipeline(options: str = "", limit: int = 1) -> dict[str, str]:
    return {"pipelines/p.py": PIPELINE.format(options=options, limit=limit)}


@pytest.fixture
def appended(tmp_path: Path) -> PlanningSetup:
    setup = PlanningSetup(tmp_path, pipeline())
    setup.lake.fill("raw.orders", *DAYS)
    setup.run()
    assert setup.plan().tasks == ()
    return setup


def blocked(planned: Plan) -> list[str]:
    return [each.key for each in planned.blocked]


def test_rows_that_were_appended_are_not_appended_again_when_an_input_is_remade(
    appended: PlanningSetup,
) -> None:
    appended.lake.fill("raw.orders", DAYS[0])
    planned = appended.plan()
    assert keys(planned) == [f"silver.orders@{DAYS[0]}"]
    [blocked_task] = planned.blocked
    assert (blocked_task.key, blocked_task.reason) == (LOGS[0], "APPENDED")
    assert "silver.orders is made in this plan: ds=2026-01-13" in blocked_task.cause
    assert "--append-again" in blocked_task.fix
    assert 'on_change="replace"' in blocked_task.fix
    document = {
        "key": blocked_task.key,
        "reason": "APPENDED",
        "cause": blocked_task.cause,
        "fix": blocked_task.fix,
    }
    assert plan_document(planned)["blocked"] == [document]
    appended.lake.run(appended.project, planned)
    second_plan = appended.plan()
    assert (second_plan.tasks, blocked(second_plan)) == ((), [LOGS[0]])
    assert "silver.orders is newer" in second_plan.blocked[0].cause


@pytest.mark.parametrize("asked", ["code", "force", "failed", "partitions"])
def test_no_way_to_ask_for_a_remake_appends_rows_again(appended: PlanningSetup, asked: str) -> None:
    appended.write(pipeline(limit=2))
    if asked == "force":
        planned = appended.plan("gold.log", force=True)
    elif asked == "partitions":
        planned = appended.plan("gold.log", "2026-01-13..2026-01-14")
    elif asked == "failed":
        appended.lake.run(appended.project, appended.plan(append_again=True), failing=LOGS)
        planned = appended.plan("gold.log", only=frozenset({Reason.FAILED}))
    else:
        planned = appended.plan("gold.log")
    assert (planned.tasks, blocked(planned)) == ((), LOGS)


def test_a_failure_does_not_block_what_was_never_appended(tmp_path: Path) -> None:
    setup = PlanningSetup(tmp_path, pipeline())
    setup.lake.fill("raw.orders", *DAYS)
    setup.lake.run(setup.project, setup.plan(), failing=LOGS)
    planned = setup.plan("gold.log")
    assert (reasons(planned), planned.blocked) == (dict.fromkeys(LOGS, "FAILED"), ())


def test_a_failure_after_rows_that_are_still_current_leaves_nothing_to_do(
    appended: PlanningSetup,
) -> None:
    appended.lake.run(
        appended.project, appended.plan("gold.log", force=True, append_again=True), failing=LOGS
    )
    planned = appended.plan("gold.log")
    assert (reasons(planned), planned.blocked) == ({}, ())


def test_readers_of_a_blocked_partition_are_planned_on_the_rows_that_exist(
    appended: PlanningSetup,
) -> None:
    appended.lake.fill("raw.orders", DAYS[0])
    assert not any(key.startswith("gold.report") for key in keys(appended.plan()))
    appended.write(
        {"pipelines/p.py": appended.files["pipelines/p.py"].replace("return log", "return 7")}
    )
    planned = {task.key: task for task in appended.plan().tasks}
    assert planned[f"gold.report@{DAYS[0]}"].reason is Reason.CODE_CHANGED
    assert planned[f"gold.report@{DAYS[0]}"].deps == ()


def test_rows_are_appended_again_on_request(appended: PlanningSetup) -> None:
    appended.lake.fill("raw.orders", DAYS[0])
    planned = appended.plan(append_again=True)
    assert planned.blocked == ()
    assert planned.append_again == (LOGS[0],)
    assert [key for key in keys(planned) if key in LOGS] == [LOGS[0]]
    assert planned.tasks[-1].key == f"gold.report@{DAYS[0]}"
    appended.lake.run(appended.project, planned)
    last = appended.plan(append_again=True)
    assert (last.tasks, last.append_again) == ((), ())


def test_rows_are_replaced_where_that_is_declared_and_only_what_is_stale(
    appended: PlanningSetup,
) -> None:
    appended.write(pipeline(', on_change="replace"'))
    assert appended.plan().tasks == ()
    appended.lake.fill("raw.orders", DAYS[0])
    planned = appended.plan()
    assert (planned.blocked, planned.append_again) == ((), ())
    assert LOGS[0] in keys(planned)
    [target] = next(each for each in planned.makers if each.name == "default.gold.log").targets
    assert (target.mode, target.on_change) == ("append", "replace")


def test_files_of_others_keep_a_partition_from_being_replaced(appended: PlanningSetup) -> None:
    appended.write(pipeline(', on_change="replace"'))
    files = tuple(f"s3://lake/{number}.parquet" for number in range(5))
    appended.lake.foreign_files = {"default.gold.log": {DAYS[0]: files}}
    appended.lake.fill("raw.orders", *DAYS)
    planned = appended.plan("+gold.log")
    assert blocked(planned) == [LOGS[0]]
    assert LOGS[1] in keys(planned)
    [blocked_task] = planned.blocked
    assert f"{files[0]}, {files[1]}, {files[2]} and 2 more" in blocked_task.cause
    assert "--append-again" in blocked_task.fix
    assert appended.plan(append_again=True).append_again == (LOGS[0],)


def test_a_table_without_partitions_is_blocked_as_well(tmp_path: Path) -> None:
    text = """
    @asset("gold.log", mode="append")
    def log(spark): return spark.range({rows})
    """
    setup = PlanningSetup(tmp_path, {"pipelines/p.py": text.format(rows=1)})
    setup.run()
    setup.write({"pipelines/p.py": text.format(rows=2)})
    [blocked_task] = setup.plan().blocked
    assert (blocked_task.key, blocked_task.reason) == ("gold.log", "APPENDED")
    assert "on_change" not in blocked_task.fix
    assert "--append-again" in blocked_task.fix
    assert keys(setup.plan(append_again=True)) == ["gold.log"]


def test_of_several_outputs_only_those_without_rows_are_made(tmp_path: Path) -> None:
    text = """
    @asset(outputs={{"a": "gold.a", "b": "gold.b"}}, mode="append")
    def both(spark): return {rows}
    """
    setup = PlanningSetup(tmp_path, {"pipelines/p.py": text.format(rows=1)})
    setup.run()
    del setup.lake.tables["default.gold.b"]
    assert reasons(setup.plan()) == {"gold.a": "MISSING"}  # the run adds rows to gold.b alone
    for append_again in (False, True):
        planned = setup.plan(force=True, append_again=append_again)
        assert (reasons(planned), planned.append_again) == ({"gold.a": "MISSING"}, ())
    setup.write({"pipelines/p.py": text.format(rows=2)})
    for force in (False, True):
        assert blocked(setup.plan(force=force)) == ["gold.a"]  # or gold.a would get rows again
    setup.lake.tables.clear()
    assert reasons(setup.plan(force=True)) == {"gold.a": "FORCED"}


def test_why_a_partition_is_blocked_is_explained(appended: PlanningSetup) -> None:
    appended.write(pipeline(limit=2))
    explanation = explain(
        appended.project, "gold.log", DAYS[0], appended.lake.state(), appended.now
    )
    assert explanation.status == "BLOCKED"
    assert "would add its rows a second time (the code of gold.log was" in explanation.why
    assert "--append-again" in explanation.why


def test_a_new_check_makes_nothing_stale_and_is_applied_by_force(appended: PlanningSetup) -> None:
    text = appended.files["pipelines/p.py"].replace(
        '@asset("silver.orders", partitions=DAYS',
        '@asset("silver.orders", partitions=DAYS, checks=[checks.not_null("id")]',
    )
    appended.write({"pipelines/p.py": f"    from arco import checks\n{text}"})
    assert appended.plan().tasks == ()
    forced = appended.plan("silver.orders", force=True)
    assert keys(forced) == [f"silver.orders@{day}" for day in DAYS]


ORDERS = "default.silver.orders"
SHOP = "pipelines/shop.py"


def blocks(planned: Plan) -> dict[str, str]:
    return {each.key: each.reason for each in planned.blocked}


def changed(setup: PlanningSetup, old: str, new: str) -> None:
    assert old in FILES[SHOP]
    setup.write({SHOP: FILES[SHOP].replace(old, new)})


DAILY_ASSETS = """
@asset("silver.days", partitions=PARTITIONS)
def days(): return None

@asset("silver.other")
def other(): return None
"""


@pytest.mark.parametrize(
    "partitions", ['Hourly("ds", start="2026-01-14T20")', 'Daily("day", start="2026-01-14")']
)
def test_another_partitioning_is_blocked_and_the_rest_goes_on(
    tmp_path: Path, partitions: str
) -> None:
    daily = DAILY_ASSETS.replace("PARTITIONS", 'Daily("ds", start="2026-01-13")')
    setup = PlanningSetup(tmp_path, {"pipelines/p.py": daily})
    setup.run("silver.days")
    setup.write({"pipelines/p.py": DAILY_ASSETS.replace("PARTITIONS", partitions)})
    planned = setup.plan()
    assert set(blocks(planned).values()) == {"PARTITIONING"}
    assert keys(planned) == ["silver.other"]
    [blocked, *_] = planned.blocked
    assert "silver.days has the partition ds=2026-01-13" in blocked.cause
    assert "`arco partitions clear silver.days all`" in blocked.fix
    assert "`arco table drop silver.days`" in blocked.fix
    assert setup.plan("silver.days", force=True).tasks == ()
    setup.lake.tables["default.silver.days"].clear()
    assert setup.plan("silver.days").blocked == ()


def test_another_start_is_no_other_partitioning(made: PlanningSetup) -> None:
    changed(
        made,
        'DAYS = Daily("ds", start="2026-01-05")',
        'DAYS = Daily("ds", start="2026-01-10")',
    )
    assert made.plan().blocked == ()


def test_who_replaces_all_rows_may_cut_them_otherwise(made: PlanningSetup) -> None:
    changed(
        made,
        '@asset("gold.total", owner',
        '@asset("gold.total", partitions=DAYS, mode="replace", owner',
    )
    assert made.plan("gold.total").blocked == ()


def test_another_format_is_blocked(made: PlanningSetup) -> None:
    made.lake.formats[ORDERS] = "ICEBERG"
    changed(made, '@asset("silver.orders",', '@asset("silver.orders", format="parquet",')
    planned = made.plan("silver.orders")
    assert set(blocks(planned).values()) == {"FORMAT"}
    assert "is a table of the format iceberg" in planned.blocked[0].cause
    assert "`arco table drop silver.orders`" in planned.blocked[0].fix


def attempt(setup: PlanningSetup, *changes: tuple[str, str | None, str | None]) -> LastAttempt:
    return LastAttempt(
        task="silver.orders@ds=2026-01-06",
        run_id="run-7",
        status="FAILED",
        ended_at_ms=setup.lake.clock_ms + 1,
        code_fingerprint=setup.project.fingerprints[ORDERS],
        changes=tuple(
            ColumnChange(table=ORDERS, column=name, before=before, after=after)
            for name, before, after in changes
        ),
    )


@pytest.fixture
def edited(made: PlanningSetup) -> PlanningSetup:
    """The shop after a change of code, which was tried once."""
    changed(made, "return to_cents(raw)", "return str(to_cents(raw))")
    made.lake.last_attempts[ORDERS] = attempt(
        made, ("amount", "int", "string"), ("note", None, "string")
    )
    return made


def test_the_columns_that_the_last_attempt_met_are_shown(edited: PlanningSetup) -> None:
    planned = edited.plan("silver.orders")
    assert plan_document(planned)["columns"] == [
        {
            "table": "silver.orders",
            "task": "silver.orders@ds=2026-01-06",
            "run_id": "run-7",
            "status": "FAILED",
            "code_fingerprint": edited.project.fingerprints[ORDERS],
            "added": [{"column": "note", "type": "string"}],
            "changed": [{"column": "amount", "table_type": "int", "result_type": "string"}],
            "missing": [],
        }
    ]
    [warned] = [each for each in planned.warnings if "in the last attempt" in each]
    assert warned == (
        "silver.orders: column changes in the last attempt (FAILED, run run-7, this code): "
        "amount int -> string, note string added"
    )


def test_a_type_that_was_refused_is_blocked_until_something_changes(edited: PlanningSetup) -> None:
    assert set(blocks(edited.plan("silver.orders")).values()) == {"COLUMN_TYPE"}
    assert "amount int -> string" in edited.plan("silver.orders").blocked[0].cause
    assert edited.plan("silver.orders", force=True).blocked == ()
    edited.lake.changed_at_ms["default.raw.orders"] = edited.lake.clock_ms + 2
    assert edited.plan("silver.orders").blocked == ()  # its input may have the type now
    del edited.lake.changed_at_ms["default.raw.orders"]
    changed(edited, "return to_cents(raw)", "return int(to_cents(raw))")
    assert edited.plan("silver.orders").blocked == ()


def test_a_missing_column_is_blocked_unless_the_asset_says_what_to_do(
    edited: PlanningSetup,
) -> None:
    edited.lake.last_attempts[ORDERS] = attempt(edited, ("amount", "int", None))
    planned = edited.plan("silver.orders")
    assert set(blocks(planned).values()) == {"MISSING_COLUMN"}
    assert "on_missing_column='null' or 'drop'" in planned.blocked[0].fix
    text = edited.files[SHOP].replace(
        '"silver.orders",', '"silver.orders", on_missing_column="null",', 1
    )
    edited.write({SHOP: text})
    assert edited.plan("silver.orders").blocked == ()
