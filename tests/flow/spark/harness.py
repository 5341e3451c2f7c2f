"""A project and its tasks: leased as the coordinator leases them, and really run."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from arco.catalog.publication import DispatchedAttempt
from arco.flow.coordinator.messages import (
    AttemptOutcome,
    LeasedTask,
    Progress,
    TaskOutput,
    TaskStatus,
)
from arco.flow.coordinator.run_state import attempt_id_of
from arco.flow.define import Project, find_problems, load_project
from arco.flow.plan.keys import task_key
from arco.flow.spark.executor import SparkExecutor
from arco.flow.table_name import qualified_name
from tests.flow.spark.shared_spark import SharedSpark

NOW_MS = 1_768_000_000_000  # 2026-01-09T23:06:40Z
DAY = "ds=2026-01-05"


@dataclass
class RecordingWatch:
    """A watch that records logs and progress."""

    lines: list[str] = field(default_factory=list)
    reported: list[Progress] = field(default_factory=list)
    stopped: bool = False

    def log(self, line: str) -> None:
        self.lines.append(line)

    def progress(self, progress: Progress) -> None:
        self.reported.append(progress)

    def is_stopped(self) -> bool:
        return self.stopped

    @property
    def phases(self) -> list[str]:
        return list(dict.fromkeys(each.phase for each in self.reported))


class Harness:
    """The executor of one project; `schema` is the schema that belongs to one test alone."""

    def __init__(self, shared: SharedSpark, folder: Path) -> None:
        self.shared = shared
        self.folder = folder
        self.schema = f"s{uuid4().hex[:10]}"
        self.spark = shared.open().newSession()
        self._heads: dict[str, int] = defaultdict(lambda: -1)
        self._runs = 0

    def project(self, code: str, files: Mapping[str, str] = {}, **options: Any) -> "Harness":
        """Load a project; `$` in its text stands for the schema of the test."""
        head = (
            "from arco import *\nfrom arco import checks as c\n"
            "from pyspark.sql import DataFrame, functions as F\n"
        )
        written = {"pipelines/all.py": head + code, **files}
        for name, text in written.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(self._named(text))
        self.loaded: Project = load_project(self.folder, **options)
        assert find_problems(self.loaded) == []
        self.executor = SparkExecutor(
            self.loaded,
            self.shared.catalog,
            self.shared.open,
            self.shared.runtime.clock,
            poll_s=0.1,
        )
        return self

    def _named(self, text: str) -> str:
        return text.replace("$", self.schema)

    def name(self, table: str) -> str:
        return qualified_name(self._named(table))

    def lease(
        self,
        maker: str,
        partition: str = "",
        *,
        attempt: int = 1,
        run: str | None = None,
        params: Mapping[str, str] | None = None,
        dynamic: Mapping[str, tuple[str, ...]] | None = None,
        at: int | None = None,
    ) -> LeasedTask:
        """A task as it would be leased now."""
        self._runs += run is None
        run_id = run or f"RUN{self._runs}{self.schema}"
        maker_def = next(
            each
            for each in self.loaded.makers()
            if each.name in (maker, self._named(maker), f"default.{self._named(maker)}")
        )
        key = task_key(maker_def.name, partition)
        attempt_id = attempt_id_of(run_id, key, attempt)
        outputs = tuple(
            TaskOutput(
                table=output.table,
                table_id=None,
                attempt=DispatchedAttempt(
                    attempt_id=attempt_id,
                    task=f"{run_id}/{key}",
                    dispatched_at_number=self._heads[output.table] if at is None else at,
                    dispatched_at_ms=self.shared.runtime.clock.now_ms(),
                    partitions=(partition,) if partition else (),
                ),
            )
            for output in maker_def.outputs
        )
        return LeasedTask(
            run_id=run_id,
            key=key,
            maker=maker_def.name,
            partition=partition,
            attempt=attempt,
            attempt_id=attempt_id,
            lease_until_ms=NOW_MS + 15_000,
            reason="MISSING",
            now_ms=NOW_MS,
            params=dict(params or {}),
            dynamic=dict(dynamic or {}),
            outputs=outputs,
        )

    def run(self, maker: str, partition: str = "", **options: Any) -> AttemptOutcome:
        """Run a task."""
        return self.execute(self.lease(maker, partition, **options))

    def execute(self, task: LeasedTask, watch: RecordingWatch | None = None) -> AttemptOutcome:
        outcome = self.executor.execute(task, watch or RecordingWatch())
        for done in outcome.outputs:
            if done.version is not None:
                self._heads[done.table] = max(self._heads[done.table], done.version)
        return outcome

    def materialize(self, maker: str, partition: str = "", **options: Any) -> AttemptOutcome:
        """Run a task that has to succeed."""
        outcome = self.run(maker, partition, **options)
        assert outcome.status is TaskStatus.SUCCESS, outcome.error
        return outcome

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        """All rows of a table that readers see, sorted."""
        table_row = self.shared.catalog.find(self.name(table))
        assert table_row is not None
        if table_row.format == "iceberg":
            frame = self.shared.open().newSession().table(self._named(table))
        else:
            now = self.shared.catalog.files(table_row.table_id)
            paths = [f"{now.location}/{f.path}" for files in now.files.values() for f in files]
            if not paths:
                return []
            frame = self.spark.read.option("mergeSchema", "true").parquet(*paths)
        return sorted((tuple(row) for row in frame.collect()), key=repr)

    def columns(self, table: str) -> dict[str, str]:
        table_row = self.shared.catalog.find(self.name(table))
        assert table_row is not None
        if table_row.format == "iceberg":  # the catalog updates its columns shortly after a commit
            frame = self.shared.open().newSession().table(self._named(table))
            return {each.name: each.dataType.simpleString() for each in frame.schema.fields}
        return {each.name: each.data_type for each in table_row.columns}
