"""A plan as a document that people keep and compare: small, and the same text for the same plan."""

from datetime import UTC, datetime, timedelta

from arco.core.json import Json
from arco.flow.plan.key import short_name
from arco.flow.plan.plan import Plan, Reads
from arco.flow.plan.runs import runs


def plan_document(plan: Plan) -> dict[str, Json]:
    """The plan for `--json`; partitions that follow each other are told as `ds=a..b`."""
    reads = [_reads(each) for each in plan.reads]  # made once, however many tasks read the same
    return {
        "plan_id": plan.plan_id,
        "project": plan.project,
        "selection": plan.selection,
        "now": told_time(plan.now_ms),
        "state_number": plan.state_number,
        "tasks": [
            {
                "key": task.key,
                "asset": short_name(task.maker),
                "partition": task.partition,
                "reason": task.reason.value,
                "detail": task.detail,
                "inputs": [reads[number] for number in task.inputs],
                "deps": list(task.deps),
            }
            for task in plan.tasks
        ],
        "waiting": [{"key": each.key, "lacks": list(each.lacks)} for each in plan.waiting],
        "blocked": blocked_document(plan),
        "columns": columns_document(plan),
        "up_to_date": plan.up_to_date,
        "warnings": list(plan.warnings),
    }


def blocked_document(plan: Plan) -> list[Json]:
    """What the plan does not make though it is out of date; `fix` only where there is one."""
    found: list[Json] = []
    for each in plan.blocked:
        document: dict[str, Json] = {"key": each.key, "reason": each.reason, "cause": each.cause}
        found.append(document | ({"fix": each.fix} if each.fix else {}))
    return found


def columns_document(plan: Plan) -> list[Json]:
    """For each table the columns in which the result of its last attempt differed from it."""
    return [
        {
            "table": short_name(last.changes[0].table),
            "task": last.task,
            "run_id": last.run_id,
            "status": last.status,
            "code_fingerprint": last.code_fingerprint,
            "added": [
                {"column": each.column, "type": each.after}
                for each in last.changes
                if each.before is None
            ],
            "changed": [
                {"column": each.column, "table_type": each.before, "result_type": each.after}
                for each in last.changes
                if each.before is not None and each.after is not None
            ],
            "missing": [
                {"column": each.column, "type": each.before}
                for each in last.changes
                if each.after is None
            ],
        }
        for last in plan.columns
    ]


def told_time(ms: int) -> str:
    """A moment in UTC, to the second where that is all there is."""
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
    text = moment.isoformat(timespec="milliseconds" if ms % 1_000 else "seconds")
    return text.replace("+00:00", "Z")


def _reads(each: Reads) -> Json:
    skipped = set(each.skipped)
    read = [key for key in each.partitions if key not in skipped] if skipped else each.partitions
    found: dict[str, Json] = {"table": short_name(each.table), "partitions": [*runs(read)]}
    return found | ({"skipped": [*runs(each.skipped)]} if skipped else {})
