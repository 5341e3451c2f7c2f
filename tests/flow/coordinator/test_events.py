"""The rows that the end of an attempt leads to."""

import msgspec

from arco.core import json
from arco.events.lineage_payload import LineageInput, LineageObserved, LineageOutput
from arco.events.payload import ColumnProfile
from arco.flow.coordinator.messages import AttemptOutcome, CheckOutcome, OutputResult, TaskStatus
from arco.flow.define.fingerprint import changed_parts
from arco.flow.plan.input_fingerprint import input_fingerprint, material_digest
from arco.flow.plan.plan import Plan, ReadPartitions
from arco.flow.plan.table_state import CODE_PARTS_METRIC
from arco.fold.tier2 import LINEAGE_DOMAIN
from tests.flow.coordinator.coordinator_setup import (
    FAILED,
    SUCCESS,
    CoordinatorSetup,
    run_scenario,
    simulated,
)
from tests.flow.coordinator.plans import asset, plan, run_request, task


def _two() -> Plan:
    """`b` reads what `a` makes, and a source."""
    return plan(
        task("a@1", maker="a", partition="ds=1"),
        task("b@1", "a@1", maker="b", partition="ds=1", inputs=(0, 1)),
        makers=[asset("a"), asset("b")],
        reads=[
            ReadPartitions(table="a", partitions=("ds=1",)),
            ReadPartitions(table="raw", partitions=("ds=1", "ds=2")),
        ],
    )


def test_a_partition_is_recorded_with_its_code_and_inputs() -> None:
    async def scenario(setup: CoordinatorSetup) -> None:
        setup.chains.make("raw")
        setup.chains.versions_of["id-raw"] = ("7", {"ds=1": "files-1"})
        view = await setup.coordinator.submit(run_request(_two()))
        [first] = await setup.lease()
        await setup.complete(first, setup.publish(first))
        setup.chains.versions_of["id-raw"] = ("8", {"ds=1": "files-1b"})
        [second] = await setup.lease()
        digests = [each.digest for each in second.inputs]
        assert digests == [
            material_digest([("ds=1", first.attempt_id)]),
            material_digest([("ds=1", "files-1b"), ("ds=2", None)]),
        ]
        assert [each.table_id for each in second.inputs] == ["id-a", "id-raw"]
        await setup.complete(second, setup.publish(second))
        await setup.over(view.run_id)
        rows = {row["table_id"]: row for row in await setup.reader.rows("partitions")}
        row = rows["id-b"]
        pairs = [("id-a", digests[0]), ("id-raw", digests[1])]
        assert row["input_fingerprint"] == input_fingerprint("code", pairs)
        assert row["code_fingerprint"] == "code"
        assert row["materialization_id"] == second.attempt_id
        assert (row["status"], row["row_count"]) == ("COMPLETE", 10)

    run_scenario(scenario, sources=frozenset({"raw"}))


def test_the_parts_of_the_code_are_recorded_however_many_there_are() -> None:
    few = {"function f": "1", "constant N": "2"}
    many = {f"function f{number}": f"{number:012}" for number in range(300)}

    async def scenario(setup: CoordinatorSetup) -> None:
        view = await setup.coordinator.submit(run_request(plan(task("t1"), task("t2"))))
        for leased, parts in zip(await setup.lease(), (few, many), strict=True):
            await setup.complete(leased, msgspec.structs.replace(SUCCESS, code_parts=parts))
        await setup.over(view.run_id)
        rows = sorted(await setup.reader.rows("tasks"), key=lambda row: str(row["task_id"]))
        texts = [dict(row["metrics"])[CODE_PARTS_METRIC] for row in rows]
        recorded = [json.decode(text.encode(), dict[str, str]) for text in texts]
        assert recorded[0] == few
        assert changed_parts(recorded[1], many) == ()
        assert len(changed_parts(recorded[1], many | {"function f299": "other"})) == 1

    run_scenario(scenario)


def test_a_task_that_skips_missing_partitions_gets_those_with_data() -> None:
    async def scenario(setup: CoordinatorSetup) -> None:
        setup.chains.make("raw")
        setup.chains.versions_of["id-raw"] = ("7", {"ds=1": "files-1"})
        made = asset("b")
        reads = [
            ReadPartitions(table="raw", partitions=("ds=1", "ds=2", "ds=3"), skips_missing=skips)
            for skips in (True, False)
        ]
        one = task("b@1", maker="b", partition="ds=1", inputs=(0, 1))
        view = await setup.coordinator.submit(run_request(plan(one, makers=[made], reads=reads)))
        setup.chains.versions_of["id-raw"] = ("8", {"ds=1": "files-1", "ds=3": "files-3"})
        [leased] = await setup.lease()
        skipping, waiting = leased.inputs
        assert skipping.partitions == ("ds=1", "ds=3")
        assert waiting.partitions == ("ds=1", "ds=2", "ds=3")
        # A partition that comes later changes the digest.
        partition_materials = [("ds=1", "files-1"), ("ds=2", None), ("ds=3", "files-3")]
        assert skipping.digest == waiting.digest == material_digest(partition_materials)
        await setup.complete(leased, setup.publish(leased))
        await setup.over(view.run_id)
        [done] = await setup.reader.rows("tasks")
        assert "ds=2" in str(done["input_partitions"])  # of the input that waits
        assert str(done["input_partitions"]).count("ds=2") == 1

    run_scenario(scenario, sources=frozenset({"raw"}))


def test_a_restart_restores_the_inputs_of_an_attempt() -> None:
    async def scenario(setup: CoordinatorSetup) -> None:
        setup.chains.make("raw")
        setup.chains.versions_of["id-raw"] = ("7", {"ds=1": "files-1"})
        await setup.coordinator.submit(run_request(_two()))
        [first] = await setup.lease()
        await setup.complete(first, setup.publish(first))
        [second] = await setup.lease()
        await setup.heartbeat(second)
        await setup.sleep(1_000)
        await setup.restart()
        await setup.complete(second, setup.publish(second))
        rows = {row["table_id"]: row for row in await setup.reader.rows("partitions")}
        pairs = [(each.table_id or each.table, each.digest) for each in second.inputs]
        assert rows["id-b"]["input_fingerprint"] == input_fingerprint("code", pairs)

    run_scenario(scenario, sources=frozenset({"raw"}))


@simulated
async def test_checks_lineage_and_statistics_are_recorded_with_the_end(
    setup: CoordinatorSetup,
) -> None:
    made = plan(task("t@1", maker="t", partition="ds=1"), makers=[asset("t")])
    view = await setup.coordinator.submit(run_request(made))
    [leased] = await setup.lease()
    number = setup.chains.publish(leased.outputs[0])
    output = OutputResult(
        table="t",
        table_id="id-t",
        partition="ds=1",
        version=number,
        rows=5,
        bytes=50,
        table_rows=500,
        columns=(ColumnProfile(column_id="c1", null_count=2),),
    )
    checks = (
        CheckOutcome(
            table="t", table_id="id-t", name="some", type="ROW_COUNT", severity="error", passed=True
        ),
        CheckOutcome(
            table="t",
            table_id="id-t",
            name="odd",
            type="RANGE_CHECK",
            severity="warn",
            passed=False,
        ),
    )
    seen = LineageObserved(
        soundness="exact",
        inputs=(LineageInput(table_id="id-raw", partitions=("ds=1",)),),
        outputs=(LineageOutput(table_id="id-t", partitions=("ds=1",)),),
    )
    outcome = AttemptOutcome(
        status=TaskStatus.SUCCESS, outputs=(output,), checks=checks, lineage=(seen,), rows_read=9
    )
    await setup.complete(leased, outcome)
    await setup.over(view.run_id)
    results = {row["check_name"]: row for row in await setup.reader.rows("quality_results")}
    assert (results["some"]["status"], results["odd"]["status"]) == ("PASSED", "WARNING")
    assert results["odd"]["result_id"] == f"qc:{leased.attempt_id}:odd"
    [edge] = await setup.reader.rows("partition_lineage", LINEAGE_DOMAIN)
    assert (edge["source_table_id"], edge["execution_id"]) == ("id-raw", view.run_id)
    [stats] = await setup.reader.rows("table_stats")
    assert stats["row_count"] == 500
    [column] = await setup.reader.rows("column_stats")
    assert column["null_count"] == 2
    [row] = await setup.reader.rows("tasks")
    assert (row["rows_read"], row["rows_written"], row["bytes_written"]) == (9, 5, 50)


@simulated
async def test_a_failed_attempt_leaves_the_partition_failed_and_a_skipped_task_leaves_it_alone(
    setup: CoordinatorSetup,
) -> None:
    made = plan(
        task("a@1", maker="a", partition="ds=1"),
        task("b@1", "a@1", maker="b", partition="ds=1"),
        makers=[asset("a"), asset("b")],
    )
    for name in ("a", "b"):
        setup.chains.make(name)
    view = await setup.coordinator.submit(run_request(made))
    [leased] = await setup.lease()
    await setup.complete(leased, FAILED)
    await setup.over(view.run_id)
    rows = {row["table_id"]: row["status"] for row in await setup.reader.rows("partitions")}
    assert rows == {"id-a": "FAILED", "id-b": "PENDING"}


@simulated
async def test_a_run_that_is_over_is_shown_after_a_restart(setup: CoordinatorSetup) -> None:
    view = await setup.coordinator.submit(run_request(plan(task("a"), task("b", "a"))))
    [leased] = await setup.lease()
    await setup.complete(leased, FAILED)
    before = await setup.over(view.run_id)
    await setup.restart()
    after = await setup.coordinator.get_run(view.run_id)
    assert (after.status, after.counts, after.error) == (before.status, before.counts, before.error)
    assert {each.key: each.error for each in after.changed} == {
        each.key: each.error for each in before.changed
    }


@simulated
async def test_the_fold_accepts_every_event(setup: CoordinatorSetup) -> None:
    view = await setup.coordinator.submit(run_request(plan(task("a"), task("b", "a"))))
    [leased] = await setup.lease()
    odd = AttemptOutcome(status=TaskStatus.FAILED, error="null \0 and long " + 100_000 * "x")
    await setup.complete(leased, odd)
    await setup.over(view.run_id)
    assert await setup.reader.rows("quarantine") == []
    [row] = [row for row in await setup.reader.rows("tasks") if row["task_id"] == "a"]
    assert row["error_message"].startswith("null  and long x")


@simulated
async def test_checks_of_the_same_name_are_recorded_for_each_table(setup: CoordinatorSetup) -> None:
    made = asset("t", also=("u",))
    view = await setup.coordinator.submit(run_request(plan(task("t@1", maker="t"), makers=[made])))
    [leased] = await setup.lease()
    checks = tuple(
        CheckOutcome(
            table=table,
            table_id=f"id-{table}",
            name="some",
            type="ROW_COUNT",
            severity="warn",
            passed=table == "t",
        )
        for table in ("t", "u")
    )
    done = tuple(
        OutputResult(table=table, table_id=f"id-{table}", partition="", version=1)
        for table in ("t", "u")
    )
    outcome = AttemptOutcome(status=TaskStatus.SUCCESS, outputs=done, checks=checks)
    await setup.complete(leased, outcome)
    await setup.over(view.run_id)
    rows = await setup.reader.rows("quality_results")
    assert {row["table_id"]: row["status"] for row in rows} == {"id-t": "PASSED", "id-u": "WARNING"}
    assert len({row["result_id"] for row in rows}) == 2  # the key of the table, within a bucket
