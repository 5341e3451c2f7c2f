"""Which parts of the code behind an asset differ from the code that made a partition."""

from typing import TYPE_CHECKING

from arco.api.requests import QueryRequest
from arco.api.responses import QueryResult
from arco.core import json
from arco.flow.define.fingerprint import changed_parts
from arco.flow.plan.event_query import FRESH, literal
from arco.flow.plan.keys import task_key
from arco.flow.plan.table_state import CODE_METRIC, CODE_PARTS_METRIC

if TYPE_CHECKING:
    from arco.cli.remote import Remote
    from arco.flow.define import Project


def code_changes(
    remote: "Remote", project: "Project", maker: str, recorded: str
) -> tuple[str, ...]:
    """The functions, constants and options that changed since the recorded code, as far as records say."""
    sql = (
        f"SELECT metrics['{CODE_PARTS_METRIC}'] FROM system.tasks "  # noqa: S608
        f"WHERE split_part(task_id, chr(64), 1) = {literal(task_key(maker, ''))} "
        f"AND metrics['{CODE_METRIC}'] = {literal(recorded)} "
        f"AND metrics['{CODE_PARTS_METRIC}'] IS NOT NULL "
        "ORDER BY completed_at DESC LIMIT 1"
    )
    answer = remote.change("POST", "/query", QueryRequest(sql=sql, freshness=FRESH))
    rows = json.decode(answer, QueryResult).rows
    if not rows:
        return ()
    before = json.decode(str(rows[0][0]).encode(), dict[str, str])
    return changed_parts(before, project.code_parts[maker])
