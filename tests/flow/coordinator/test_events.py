"""The rows that the end of an attempt leads to."""

from arco.events.lineage import LineageInput, LineageObserved, LineageOutput
from arco.events.table import ColumnProfile
from arco.flow.coordinator.messages import AttemptOutcome, CheckOutcome, OutputResult, TaskStatus
from arco.flow.plan.input_fingerprint import input_fingerprint, material_digest
from arco.flow.plan.plan import Plan, ReadPartitions
from arco.fold.tier2 import LINEAGE_DOMAIN
from tests.flow.coordinator.plans import asset, plan, run_request, task
from tests.flow.coordinator.rig import FAILED, Rig, run_scenario, simulated


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
    async def scenario(rig: Rig) -> None:
        rig.chains.make("raw")
        rig.chains.versions_of["id-raw"] = ("7", {"ds=1": "files-1"})
        view = await rig.coordinator.submit(run_request(_two()))
        [first] = await rig.lease()
        await rig.complete(first, rig.publish(first))
        rig.chains.versions_of["id-raw"] = ("8", {"ds=1": "files-1b"})
        [second] = await rig.lease()
        digests = [each.digest for each in second.inputs]
        assert digests == [
            material_digest([("ds=1", first.attempt_id)]),
            material_digest([("ds=1", "files-1b"), ("ds=2", None)]),
        ]
        assert [each.table_id for each in second.inputs] == ["id-a", "id-raw"]
        await rig.complete(second, rig.publish(second))
        await rig.over(view.run_id)
        rows = {row["table_id"]: row for row in await rig.reader.rows("partitions")}
        row = rows["id-b"]
        pairs = [("id-a", digests[0]), ("id-raw", digests[1])]
        assert row["input_fingerprint"] == input_fingerprint("code", pairs)
        assert row["code_fingerprint"] == "code"
        assert row["materialization_id"] == second.attempt_id
        assert (row["status"], row["row_count"]) == ("COMPLETE", 10)

    run_scenario(scenario, sources=frozenset({"raw"}))


def test_a_task_that_skips_missing_partitions_gets_those_with_data() -> None:
    async def scenario(rig: Rig) -> None:
        rig.chains.make("raw")
        rig.chains.versions_of["id-raw"] = ("7", {"ds=1": "files-1"})
        made = asset("b")
        reads = [
            ReadPartitions(table="raw", partitions=("ds=1", "ds=2", "ds=3"), skips_missing=skips)
            for skips in (True, False)
        ]
        one = task("b@1", maker="b", partition="ds=1", inputs=(0, 1))
        view = await rig.coordinator.submit(run_request(plan(one, makers=[made], reads=reads)))
        rig.chains.versions_of["id-raw"] = ("8", {"ds=1": "files-1", "ds=3": "files-3"})
        [leased] = await rig.lease()
        skipping, waiting = leased.inputs
        assert skipping.partitions == ("ds=1", "ds=3")
        assert waiting.partitions == ("ds=1", "ds=2", "ds=3")
        # A partition that comes later changes the digest.
        known = [("ds=1", "files-1"), ("ds=2", None), ("ds=3", "files-3")]
        assert skipping.digest == waiting.digest == material_digest(known)
        await rig.complete(leased, rig.publish(leased))
        await rig.over(view.run_id)
        [done] = await rig.reader.rows("tasks")
        assert "ds=2" in str(done["input_partitions"])  # of the input that waits
        assert str(done["input_partitions"]).count("ds=2") == 1

    run_scenario(scenario, sources=frozenset({"raw"}))


def test_a_restart_restores_the_inputs_of_an_attempt() -> None:
    async def scenario(rig: Rig) -> None:
        rig.chains.make("raw")
        rig.chains.versions_of["id-raw"] = ("7", {"ds=1": "files-1"})
        await rig.coordinator.submit(run_request(_two()))
        [first] = await rig.lease()
        await rig.complete(first, rig.publish(first))
        [second] = await rig.lease()
        await rig.heartbeat(second)
        await rig.sleep(1_000)
        await rig.restart()
        await rig.complete(second, rig.publish(second))
        rows = {row["table_id"]: row for row in await rig.reader.rows("partitions")}
        pairs = [(each.table_id or each.table, each.digest) for each in second.inputs]
        assert rows["id-b"]["input_fingerprint"] == input_fingerprint("code", pairs)

    run_scenario(scenario, sources=frozenset({"raw"}))


@simulated
async def test_checks_lineage_and_statistics_are_recorded_with_the_end(rig: Rig) -> None:
    made = plan(task("t@1", maker="t", partition="ds=1"), makers=[asset("t")])
    view = await rig.coordinator.submit(run_request(made))
    [leased] = await rig.lease()
    number = rig.chains.publish(leased.outputs[0])
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
    await rig.complete(leased, outcome)
    await rig.over(view.run_id)
    results = {row["check_name"]: row for row in await rig.reader.rows("quality_results")}
    assert (results["some"]["status"], results["odd"]["status"]) == ("PASSED", "WARNING")
    assert results["odd"]["result_id"] == f"qc:{leased.attempt_id}:odd"
    [edge] = await rig.reader.rows("partition_lineage", LINEAGE_DOMAIN)
    assert (edge["source_table_id"], edge["execution_id"]) == ("id-raw", view.run_id)
    [stats] = await rig.reader.rows("table_stats")
    assert stats["row_count"] == 500
    [column] = await rig.reader.rows("column_stats")
    assert column["null_count"] == 2
    [row] = await rig.reader.rows("tasks")
    assert (row["rows_read"], row["rows_written"], row["bytes_written"]) == (9, 5, 50)


@simulated
async def test_a_failed_attempt_leaves_the_partition_failed_and_a_skipped_task_leaves_it_alone(
    rig: Rig,
) -> None:
    made = plan(
        task("a@1", maker="a", partition="ds=1"),
        task("b@1", "a@1", maker="b", partition="ds=1"),
        makers=[asset("a"), asset("b")],
    )
    for name in ("a", "b"):
        rig.chains.make(name)
    view = await rig.coordinator.submit(run_request(made))
    [leased] = await rig.lease()
    await rig.complete(leased, FAILED)
    await rig.over(view.run_id)
    rows = {row["table_id"]: row["status"] for row in await rig.reader.rows("partitions")}
    assert rows == {"id-a": "FAILED", "id-b": "PENDING"}


@simulated
async def test_a_run_that_is_over_is_shown_after_a_restart(rig: Rig) -> None:
    view = await rig.coordinator.submit(run_request(plan(task("a"), task("b", "a"))))
    [leased] = await rig.lease()
    await rig.complete(leased, FAILED)
    before = await rig.over(view.run_id)
    await rig.restart()
    after = await rig.coordinator.get_run(view.run_id)
    assert (after.status, after.counts, after.error) == (before.status, before.counts, before.error)
    assert {each.key: each.error for each in after.changed} == {
        each.key: each.error for each in before.changed
    }


@simulated
async def test_the_fold_accepts_every_event(rig: Rig) -> None:
    view = await rig.coordinator.submit(run_request(plan(task("a"), task("b", "a"))))
    [leased] = await rig.lease()
    odd = AttemptOutcome(status=TaskStatus.FAILED, error="null \0 and long " + 100_000 * "x")
    await rig.complete(leased, odd)
    await rig.over(view.run_id)
    assert await rig.reader.rows("quarantine") == []
    [row] = [row for row in await rig.reader.rows("tasks") if row["task_id"] == "a"]
    assert row["error_message"].startswith("null  and long x")


@simulated
async def test_checks_of_the_same_name_are_recorded_for_each_table(rig: Rig) -> None:
    made = asset("t", also=("u",))
    view = await rig.coordinator.submit(run_request(plan(task("t@1", maker="t"), makers=[made])))
    [leased] = await rig.lease()
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
    await rig.complete(leased, outcome)
    await rig.over(view.run_id)
    rows = await rig.reader.rows("quality_results")
    assert {row["table_id"]: row["status"] for row in rows} == {"id-t": "PASSED", "id-u": "WARNING"}
    assert len({row["result_id"] for row in rows}) == 2  # the key of the table, within a bucket
