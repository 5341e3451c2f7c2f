"""Lineage by definition: what is declared to be read and written, for want of anything that was seen."""

from collections.abc import Callable

from arco.core.clock import utc
from arco.events.lineage import LineageInput, LineageObserved, LineageOutput
from arco.flow.define import AssetDef, TaskDef
from arco.flow.run.wire import LeasedTask
from arco.flow.work.port import LakeTable


def declared(
    maker: AssetDef | TaskDef,
    table: str,
    task: LeasedTask,
    find: Callable[[str], LakeTable | None],
    now_ms: int,
) -> LineageObserved:
    """The lineage of one table as the definition of its maker tells it."""
    return LineageObserved(
        soundness="declared",
        inputs=tuple(
            LineageInput(table_id=_id(find(each.table)), name=each.table) for each in maker.inputs
        ),
        outputs=(
            LineageOutput(
                table_id=_id(find(table)),
                name=table,
                partitions=(task.partition,) if task.partition else (),
            ),
        ),
        observed_at=utc(now_ms),
        pipeline_id=maker.name,
        execution_id=task.run_id,
        task_id=task.key,
        attempt_id=task.attempt_id,
    )


def _id(table: LakeTable | None) -> str | None:
    return None if table is None else table.table_id
