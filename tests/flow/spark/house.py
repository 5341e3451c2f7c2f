"""A project and what its tasks do: leased as the book of runs would lease them, carried out for real."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from arco.catalog.publication import Attempt
from arco.flow.define import Project, find_problems, load_project
from arco.flow.define.table_name import qualified_name
from arco.flow.plan.keys import task_key
from arco.flow.run.task_state import attempt_id_of
from arco.flow.run.wire import LeasedTask, Outcome, OutputPlace, Progress, TaskStatus
from arco.flow.spark.executor import SparkExecutor
from tests.flow.spark.shared import SharedSpark

NOW_MS = 1_768_000_000_000  # 2026-01-09T23:06:40Z
DAY = "ds=2026-01-05"


@dataclass
class Watched:
    """A watch that remembers what it was told."""

    lines: list[str] = field(default_factory=list)
    told: list[Progress] = field(default_factory=list)
    stopped: bool = False

    def log(self, line: str) -> None:
        self.lines.append(line)

    def progress(self, progress: Progress) -> None:
        self.told.append(progress)

    def is_stopped(self) -> bool:
        return self.stopped

    @property
    def phases(self) -> list[str]:
        return list(dict.fromkeys(each.phase for each in self.told))


class House:
    """The executor of one project; `schema` is the schema that belongs to one test alone."""

    def __init__(self, shared: SharedSpark, folder: Path) -> None:
        self.shared = shared
        self.folder = folder
        self.schema = f"s{uuid4().hex[:10]}"
        self.spark = shared.open().newSession()
        self._heads: dict[str, int] = defaultdict(lambda: -1)
        self._runs = 0

    def project(self, code: str, files: Mapping[str, str] = {}, **options: Any) -> "House":
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
            self.loaded, self.shared.lake, self.shared.open, self.shared.runtime.clock, poll_s=0.1
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
        found = next(
            each
            for each in self.loaded.makers()
            if each.name in (maker, self._named(maker), f"default.{self._named(maker)}")
        )
        key = task_key(found.name, partition)
        attempt_id = attempt_id_of(run_id, key, attempt)
        places = tuple(
            OutputPlace(
                table=output.table,
                table_id=None,
                attempt=Attempt(
                    attempt_id=attempt_id,
                    task=f"{run_id}/{key}",
                    dispatched_at_number=self._heads[output.table] if at is None else at,
                    dispatched_at_ms=self.shared.runtime.clock.now_ms(),
                    partitions=(partition,) if partition else (),
                ),
            )
            for output in found.outputs
        )
        return LeasedTask(
            run_id=run_id,
            key=key,
            maker=found.name,
            partition=partition,
            attempt=attempt,
            attempt_id=attempt_id,
            lease_until_ms=NOW_MS + 15_000,
            reason="MISSING",
            now_ms=NOW_MS,
            params=dict(params or {}),
            dynamic=dict(dynamic or {}),
            outputs=places,
        )

    def run(self, maker: str, partition: str = "", **options: Any) -> Outcome:
        """Carry a task out."""
        return self.carry_out(self.lease(maker, partition, **options))

    def carry_out(self, task: LeasedTask, watch: Watched | None = None) -> Outcome:
        outcome = self.executor.execute(task, watch or Watched())
        for done in outcome.outputs:
            if done.version is not None:
                self._heads[done.table] = max(self._heads[done.table], done.version)
        return outcome

    def made(self, maker: str, partition: str = "", **options: Any) -> Outcome:
        """Carry a task out that has to succeed."""
        outcome = self.run(maker, partition, **options)
        assert outcome.status is TaskStatus.SUCCESS, outcome.error
        return outcome

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        """All rows of a table as everybody sees them, sorted."""
        found = self.shared.lake.find(self.name(table))
        assert found is not None
        if found.format == "iceberg":
            frame = self.shared.open().newSession().table(self._named(table))
        else:
            now = self.shared.lake.files(found.table_id)
            paths = [f"{now.location}/{f.path}" for files in now.files.values() for f in files]
            if not paths:
                return []
            frame = self.spark.read.option("mergeSchema", "true").parquet(*paths)
        return sorted((tuple(row) for row in frame.collect()), key=repr)

    def columns(self, table: str) -> dict[str, str]:
        found = self.shared.lake.find(self.name(table))
        assert found is not None
        if found.format == "iceberg":  # whose columns the catalog learns a moment after a commit
            frame = self.shared.open().newSession().table(self._named(table))
            return {each.name: each.dataType.simpleString() for each in frame.schema.fields}
        return {each.name: each.data_type for each in found.columns}
