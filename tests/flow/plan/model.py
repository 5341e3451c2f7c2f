"""A lake in memory that carries out plans: what a book of runs and its workers record, and nothing else."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from arco.flow.define import Project, find_problems, load_project
from arco.flow.plan.input_fingerprint import input_fingerprint, material_digest
from arco.flow.plan.plan import Plan, PlannedTask, Reason
from arco.flow.plan.planner import plan
from arco.flow.plan.table_state import LastAttempt, PlanningState, TableState
from tests.flow.define.projects import write

NOW = datetime(2026, 1, 15, 6, tzinfo=UTC)


@dataclass(frozen=True)
class Row:
    """What is recorded of a partition."""

    status: str = "COMPLETE"
    material: str | None = None
    inputs: str | None = None
    code: str | None = None
    made_at_ms: int | None = None


@dataclass
class Lake:
    """Tables by full name; those in `versions` are sources."""

    tables: dict[str, dict[str, Row]] = field(default_factory=dict)
    versions: dict[str, str | None] = field(default_factory=dict)
    changed_at_ms: dict[str, int] = field(default_factory=dict)
    others_at_ms: dict[str, int] = field(default_factory=dict)
    dynamic: dict[str, tuple[str, ...]] = field(default_factory=dict)
    foreign_files: dict[str, dict[str, tuple[str, ...]]] = field(default_factory=dict)
    formats: dict[str, str] = field(default_factory=dict)
    last_attempts: dict[str, LastAttempt] = field(default_factory=dict)
    clock_ms: int = 1_000
    ran: list[str] = field(default_factory=list)

    def fill(self, table: str, *keys: str, version: str | None = "1") -> None:
        """Somebody else writes these partitions of a table."""
        rows = self.tables.setdefault(f"default.{table}", {})
        self.versions[f"default.{table}"] = version
        for key in keys:
            rows[key] = Row(material=f"file-{self._tick()}", made_at_ms=self.clock_ms)

    def state(self) -> PlanningState:
        tables = {name: self._table(name, rows) for name, rows in self.tables.items()}
        return PlanningState(number=7, tables=tables, dynamic=self.dynamic)

    def _table(self, name: str, rows: Mapping[str, Row]) -> TableState:
        columns = list(rows.values())
        exists = name in self.versions or any(row.material for row in columns)
        return TableState(
            table_id=f"id-{name}" if exists else None,
            format=self.formats.get(name),
            last_attempt=self.last_attempts.get(name),
            version=self.versions.get(name),
            changed_at_ms=self.changed_at_ms.get(name),
            others_at_ms=self.others_at_ms.get(name),
            others="PyIceberg/0.12.0" if name in self.others_at_ms else None,
            keys=tuple(rows),
            statuses=tuple(row.status for row in columns),
            materials=tuple(row.material for row in columns),
            input_fingerprints=tuple(row.inputs for row in columns),
            code_fingerprints=tuple(row.code for row in columns),
            made_at_ms=tuple(row.made_at_ms for row in columns),
            foreign_files=self.foreign_files.get(name, {}),
        )

    def run(self, project: Project, planned: Plan, failing: Collection[str] = ()) -> list[str]:
        """Carry a plan out in its order; what waits for a task that failed is not begun."""
        bad: set[str] = set()
        done: set[str] = set()
        self.ran = []
        for task in planned.tasks:
            for each in task.deps:
                assert each in done or each in bad, "a task stands before one that it waits for"
            if bad.intersection(task.deps):
                bad.add(task.key)
            elif task.key in failing:
                bad.add(task.key)
                self._fail(planned, task)
            else:
                self._make(project, planned, task)
                done.add(task.key)
                self.ran.append(task.key)
        return self.ran

    def _make(self, project: Project, planned: Plan, task: PlannedTask) -> None:
        code = project.fingerprints[task.maker]
        read = [planned.reads[number] for number in task.inputs]
        digests = [
            (
                self._identity(each.table),
                material_digest((key, self._material(each.table, key)) for key in each.partitions),
            )
            for each in read
        ]
        made = Row(
            material=f"attempt-{self._tick()}",
            inputs=input_fingerprint(code, digests),
            code=code,
            made_at_ms=self.clock_ms,
        )
        for table in self._targets(planned, task):
            self.tables.setdefault(table, {})[task.partition] = made

    def _fail(self, planned: Plan, task: PlannedTask) -> None:
        for table in self._targets(planned, task):
            rows = self.tables.setdefault(table, {})
            old = rows.get(task.partition, Row())
            rows[task.partition] = Row("FAILED", old.material, old.inputs, old.code, old.made_at_ms)

    def _targets(self, planned: Plan, task: PlannedTask) -> list[str]:
        maker = next(each for each in planned.makers if each.name == task.maker)
        return [target.table for target in maker.targets] or [task.maker]

    def _identity(self, table: str) -> str:
        rows = self.tables.get(table, {})
        exists = table in self.versions or any(row.material for row in rows.values())
        return f"id-{table}" if exists else table

    def _material(self, table: str, key: str) -> str | None:
        row = self.tables.get(table, {}).get(key)
        return None if row is None else row.material

    def _tick(self) -> int:
        self.clock_ms += 1_000
        return self.clock_ms


@dataclass
class PlanningSetup:
    """A project in a folder, and a lake."""

    folder: Path
    files: dict[str, str]
    now: datetime = NOW
    lake: Lake = field(default_factory=Lake)
    project: Project = field(init=False)

    def __post_init__(self) -> None:
        self.write({})

    def write(self, files: Mapping[str, str]) -> None:
        """Change files of the project and load it again."""
        self.files = {**self.files, **files}
        self.project = load_project(write(self.folder, self.files))
        assert find_problems(self.project) == []

    def plan(
        self,
        selection: str = "",
        partitions: str | None = None,
        *,
        only: frozenset[Reason] | None = None,
        force: bool = False,
        append_again: bool = False,
    ) -> Plan:
        return plan(
            self.project,
            selection,
            self.lake.state(),
            self.now,
            partitions=partitions,
            only=only,
            force=force,
            append_again=append_again,
        )

    def run(self, selection: str = "", partitions: str | None = None) -> list[str]:
        return self.lake.run(self.project, self.plan(selection, partitions))


def keys(planned: Plan) -> list[str]:
    return [task.key for task in planned.tasks]


def reasons(planned: Plan) -> dict[str, str]:
    return {task.key: task.reason.value for task in planned.tasks}


def makers(planned: Plan) -> set[str]:
    return {task.maker.removeprefix("default.") for task in planned.tasks}
