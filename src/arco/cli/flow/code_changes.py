"""Which parts of the code behind an asset differ from the code that made a partition."""

from typing import TYPE_CHECKING

from arco.api.wire import Question, Result
from arco.core import json
from arco.flow.define.fingerprint import changed_parts
from arco.flow.plan.keys import task_key
from arco.flow.read.asking import FRESH, literal
from arco.flow.run.ending import CODE, CODE_PARTS

if TYPE_CHECKING:
    from arco.cli.remote import Remote
    from arco.flow.define import Project


def code_changes(
    remote: "Remote", project: "Project", maker: str, recorded: str
) -> tuple[str, ...]:
    """The functions, constants and options that changed since the recorded code, as far as records say."""
    sql = (
        f"SELECT metrics['{CODE_PARTS}'] FROM system.tasks "  # noqa: S608
        f"WHERE split_part(task_id, chr(64), 1) = {literal(task_key(maker, ''))} "
        f"AND metrics['{CODE}'] = {literal(recorded)} AND metrics['{CODE_PARTS}'] IS NOT NULL "
        "ORDER BY completed_at DESC LIMIT 1"
    )
    answer = remote.change("POST", "/query", Question(sql=sql, freshness=FRESH))
    rows = json.decode(answer, Result).rows
    if not rows:
        return ()
    before = json.decode(str(rows[0][0]).encode(), dict[str, str])
    return changed_parts(before, project.code_parts[maker])
