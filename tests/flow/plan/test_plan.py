"""A plan as a document."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from arco.core import json
from arco.flow.plan.plan import BlockedPartition, Plan, plan_document
from arco.flow.plan.planner import plan
from arco.flow.plan.table_state import PlanningState, TableState
from tests.flow.plan.model import NOW, PlanningSetup


def test_a_document_says_what_a_plan_does(setup: PlanningSetup) -> None:
    planned = setup.plan("silver.orders gold.spend_7d", "2026-01-05..2026-01-06")
    document = plan_document(planned)
    assert document["plan_id"] == planned.plan_id
    assert document["now"] == "2026-01-15T06:00:00Z"
    assert document["tasks"] == [
        {
            "key": f"silver.orders@ds=2026-01-0{day}",
            "asset": "silver.orders",
            "partition": f"ds=2026-01-0{day}",
            "reason": "MISSING",
            "detail": "there are no data yet",
            "inputs": [{"table": "raw.orders", "partitions": [f"ds=2026-01-0{day}"]}],
            "deps": [],
        }
        for day in (5, 6)
    ]
    assert document["waiting"] == [
        {"key": f"gold.spend_7d@ds=2026-01-0{day}", "lacks": ["silver.customers"]} for day in (5, 6)
    ]
    assert document["up_to_date"] == 0


def test_a_document_says_what_a_plan_does_not_make(setup: PlanningSetup) -> None:
    bare = BlockedPartition(key="gold.log@ds=2026-01-05", reason="APPENDED", cause="its rows exist")
    planned = msgspec.structs.replace(
        setup.plan(), blocked=(bare, msgspec.structs.replace(bare, fix="drop them"))
    )
    reported = {"key": "gold.log@ds=2026-01-05", "reason": "APPENDED", "cause": "its rows exist"}
    assert plan_document(planned)["blocked"] == [reported, {**reported, "fix": "drop them"}]


def test_long_inputs_are_reported_as_ranges(made: PlanningSetup) -> None:
    document = plan_document(made.plan("gold.total", force=True))
    assert json.encode(document["tasks"]).count(b"2026-01") == 2
    assert b"ds=2026-01-05..2026-01-14" in json.encode(document["tasks"])


PROGRAM = """
import sys
from datetime import datetime
from pathlib import Path
import msgspec
from arco.flow.define import load_project
from arco.flow.plan.planner import plan
from arco.flow.plan.table_state import PlanningState
project = load_project(sys.argv[1])
state = msgspec.json.decode(Path(sys.argv[2]).read_bytes(), type=PlanningState)
planned = plan(project, "", state, datetime.fromisoformat(sys.argv[3]))
sys.stdout.buffer.write(msgspec.json.encode(planned, order="deterministic"))
"""


@pytest.mark.process
def test_another_process_with_another_hash_seed_plans_the_same_bytes(made: PlanningSetup) -> None:
    made.lake.fill("raw.orders", "ds=2026-01-09", "ds=2026-01-12")
    del made.lake.tables["default.gold.b"]["ds=2026-01-06"]
    made.lake.tables.pop("default.raw.customers")
    for table in ("silver.customers", "gold.month", "gold.balance"):
        made.lake.tables.pop(f"default.{table}")
    text = "source('raw.none')\n" + "".join(
        f"@asset('late.a{each}')\ndef a{each}(raw=table('raw.none')): return raw\n"
        for each in range(9)
    )
    made.write({"pipelines/late.py": text})
    stored = made.folder / "state.json"
    stored.write_bytes(msgspec.json.encode(made.lake.state()))
    planned_bytes = msgspec.json.encode(made.plan(), order="deterministic")
    assert len(made.plan().tasks) > 10
    assert len(made.plan().waiting) > 10
    for seed in ("1", "2", "77"):
        ran = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(made.folder), str(stored), NOW.isoformat()],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        )
        assert ran.stdout == planned_bytes


def test_the_order_in_which_things_are_declared_or_known_changes_nothing(
    made: PlanningSetup,
) -> None:
    made.lake.fill("raw.orders", "ds=2026-01-09")
    project, state = made.project, made.lake.state()
    backwards = replace(
        project,
        assets=project.assets[::-1],
        sources=project.sources[::-1],
        pools=dict(reversed(project.pools.items())),
    )
    turned = PlanningState(
        number=state.number,
        tables={name: _backwards(table) for name, table in reversed(state.tables.items())},
        dynamic=state.dynamic,
    )
    assert plan(backwards, "", turned, NOW).plan_id == made.plan().plan_id


def _backwards(table: TableState) -> TableState:
    columns = (
        "keys",
        "statuses",
        "materials",
        "input_fingerprints",
        "code_fingerprints",
        "made_at_ms",
    )
    return msgspec.structs.replace(table, **{each: getattr(table, each)[::-1] for each in columns})


def test_a_plan_survives_being_stored(setup: PlanningSetup, tmp_path: Path) -> None:
    planned = setup.plan()
    stored = tmp_path / "plan.json"
    stored.write_bytes(json.encode(planned))
    read = json.decode(stored.read_bytes(), Plan)
    assert read == planned
    assert read.plan_id == planned.plan_id
    assert json.encode(plan_document(read)) == json.encode(plan_document(planned))


def test_the_id_of_a_plan_changes_with_the_time_the_state_and_the_definitions(
    made: PlanningSetup,
) -> None:
    before = made.plan("silver.orders", force=True).plan_id
    assert made.plan("silver.orders", force=True).plan_id == before
    assert made.plan("silver.customers", force=True).plan_id != before
    state = made.lake.state()
    later = PlanningState(number=state.number + 1, tables=state.tables)
    assert plan(made.project, "silver.orders", later, NOW, force=True).plan_id != before
