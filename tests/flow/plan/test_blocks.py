"""Rows that were appended once are not appended again unless somebody asks for it."""

from pathlib import Path

import pytest

from arco.flow.plan.explain import explain
from arco.flow.plan.plan import Plan, Reason, plan_document
from tests.flow.plan.model import Shop, keys, reasons

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
def made(tmp_path: Path) -> Shop:
    shop = Shop(tmp_path, pipeline())
    shop.lake.fill("raw.orders", *DAYS)
    shop.run()
    assert shop.plan().tasks == ()
    return shop


def blocked(planned: Plan) -> list[str]:
    return [each.key for each in planned.blocked]


def test_rows_that_were_appended_are_not_appended_again_when_an_input_is_remade(made: Shop) -> None:
    made.lake.fill("raw.orders", DAYS[0])
    planned = made.plan()
    assert keys(planned) == [f"silver.orders@{DAYS[0]}"]
    [found] = planned.blocked
    assert (found.key, found.reason) == (LOGS[0], "APPENDED")
    assert "silver.orders is made in this plan: ds=2026-01-13" in found.cause
    assert "--append-again" in found.fix
    assert 'on_change="replace"' in found.fix
    document = {"key": found.key, "reason": "APPENDED", "cause": found.cause, "fix": found.fix}
    assert plan_document(planned)["blocked"] == [document]
    made.lake.run(made.project, planned)
    again = made.plan()
    assert (again.tasks, blocked(again)) == ((), [LOGS[0]])
    assert "silver.orders is newer" in again.blocked[0].cause


@pytest.mark.parametrize("asked", ["code", "force", "failed", "partitions"])
def test_no_way_to_ask_for_a_remake_appends_rows_again(made: Shop, asked: str) -> None:
    made.write(pipeline(limit=2))
    if asked == "force":
        planned = made.plan("gold.log", force=True)
    elif asked == "partitions":
        planned = made.plan("gold.log", "2026-01-13..2026-01-14")
    elif asked == "failed":
        made.lake.run(made.project, made.plan(append_again=True), failing=LOGS)
        planned = made.plan("gold.log", only=frozenset({Reason.FAILED}))
    else:
        planned = made.plan("gold.log")
    assert (planned.tasks, blocked(planned)) == ((), LOGS)


def test_a_failure_does_not_block_what_was_never_appended(tmp_path: Path) -> None:
    shop = Shop(tmp_path, pipeline())
    shop.lake.fill("raw.orders", *DAYS)
    shop.lake.run(shop.project, shop.plan(), failing=LOGS)
    planned = shop.plan("gold.log")
    assert (reasons(planned), planned.blocked) == (dict.fromkeys(LOGS, "FAILED"), ())


def test_a_failure_after_rows_that_are_still_current_leaves_nothing_to_do(
    made: Shop,
) -> None:
    made.lake.run(made.project, made.plan("gold.log", force=True, append_again=True), failing=LOGS)
    planned = made.plan("gold.log")
    assert (reasons(planned), planned.blocked) == ({}, ())


def test_readers_of_a_blocked_partition_are_planned_on_the_rows_that_exist(made: Shop) -> None:
    made.lake.fill("raw.orders", DAYS[0])
    assert not any(key.startswith("gold.report") for key in keys(made.plan()))
    made.write({"pipelines/p.py": made.files["pipelines/p.py"].replace("return log", "return 7")})
    planned = {task.key: task for task in made.plan().tasks}
    assert planned[f"gold.report@{DAYS[0]}"].reason is Reason.CODE_CHANGED
    assert planned[f"gold.report@{DAYS[0]}"].deps == ()


def test_rows_are_appended_again_for_whoever_asks_for_it(made: Shop) -> None:
    made.lake.fill("raw.orders", DAYS[0])
    planned = made.plan(append_again=True)
    assert planned.blocked == ()
    assert planned.append_again == (LOGS[0],)
    assert [key for key in keys(planned) if key in LOGS] == [LOGS[0]]
    assert planned.tasks[-1].key == f"gold.report@{DAYS[0]}"
    made.lake.run(made.project, planned)
    last = made.plan(append_again=True)
    assert (last.tasks, last.append_again) == ((), ())


def test_rows_are_replaced_where_that_is_declared_and_only_what_is_stale(made: Shop) -> None:
    made.write(pipeline(', on_change="replace"'))
    assert made.plan().tasks == ()
    made.lake.fill("raw.orders", DAYS[0])
    planned = made.plan()
    assert (planned.blocked, planned.append_again) == ((), ())
    assert LOGS[0] in keys(planned)
    [target] = next(each for each in planned.makers if each.name == "default.gold.log").targets
    assert (target.mode, target.on_change) == ("append", "replace")


def test_files_of_others_keep_a_partition_from_being_replaced(made: Shop) -> None:
    made.write(pipeline(', on_change="replace"'))
    files = tuple(f"s3://lake/{number}.parquet" for number in range(5))
    made.lake.foreign_files = {"default.gold.log": {DAYS[0]: files}}
    made.lake.fill("raw.orders", *DAYS)
    planned = made.plan("+gold.log")
    assert blocked(planned) == [LOGS[0]]
    assert LOGS[1] in keys(planned)
    [found] = planned.blocked
    assert f"{files[0]}, {files[1]}, {files[2]} and 2 more" in found.cause
    assert "--append-again" in found.fix
    assert made.plan(append_again=True).append_again == (LOGS[0],)


def test_a_table_without_partitions_is_blocked_as_well(tmp_path: Path) -> None:
    text = """
    @asset("gold.log", mode="append")
    def log(spark): return spark.range({rows})
    """
    shop = Shop(tmp_path, {"pipelines/p.py": text.format(rows=1)})
    shop.run()
    shop.write({"pipelines/p.py": text.format(rows=2)})
    [found] = shop.plan().blocked
    assert (found.key, found.reason) == ("gold.log", "APPENDED")
    assert "on_change" not in found.fix
    assert "--append-again" in found.fix
    assert keys(shop.plan(append_again=True)) == ["gold.log"]


def test_of_several_outputs_only_those_without_rows_are_made(tmp_path: Path) -> None:
    text = """
    @asset(outputs={{"a": "gold.a", "b": "gold.b"}}, mode="append")
    def both(spark): return {rows}
    """
    shop = Shop(tmp_path, {"pipelines/p.py": text.format(rows=1)})
    shop.run()
    del shop.lake.tables["default.gold.b"]
    assert reasons(shop.plan()) == {"gold.a": "MISSING"}  # the run adds rows to gold.b alone
    shop.write({"pipelines/p.py": text.format(rows=2)})
    assert blocked(shop.plan()) == ["gold.a"]  # or gold.a would get rows again


def test_why_a_partition_is_blocked_is_explained(made: Shop) -> None:
    made.write(pipeline(limit=2))
    found = explain(made.project, "gold.log", DAYS[0], made.lake.state(), made.now)
    assert found.status == "BLOCKED"
    assert "would add its rows a second time (the code of gold.log was" in found.why
    assert "--append-again" in found.why
