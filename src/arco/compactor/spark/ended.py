"""How far Spark has come: which stages it works on, and how many of their tasks have ended.

Nothing is asked of it while a job takes no longer than expected, and one call or two when it does.
"""

from collections.abc import Iterable
from typing import Protocol

from pyspark.sql import SparkSession

Ended = frozenset[tuple[int, int]]  # by stage; those of which no task has ended are left out


class _Stage(Protocol):
    """A stage as a server tells of it."""

    stage_id: int
    num_completed_tasks: int


class EndedTasks:
    """The tasks of a session that have ended."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._told: Ended = frozenset()
        # A classic session can be asked; a server tells by itself, every few seconds.
        self.is_remote = type(session).__module__.startswith("pyspark.sql.connect.")
        if self.is_remote:
            session.registerProgressHandler(self._hear)

    def look(self) -> Ended:
        """Those of the stages that are under way; this blocks."""
        if self.is_remote:
            return self._told
        tracker = self._session.sparkContext.statusTracker()
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        return frozenset(
            (stage.stageId, stage.numCompletedTasks)
            for stage in stages
            if stage is not None and stage.numCompletedTasks
        )

    def _hear(self, stages: Iterable[_Stage] | None, **_others: object) -> None:
        self._told = frozenset(
            (stage.stage_id, stage.num_completed_tasks)
            for stage in stages or ()
            if stage.num_completed_tasks
        )
