"""What it costs to plan, against the least that any planner does: sort the tasks, write them and hash them.

A plan here is the whole of it: definitions, state and selection in, reasons, inputs, edges and id out.
"""

import gc
import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from graphlib import TopologicalSorter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from arco.flow.define import Project, load_project
from arco.flow.plan.plan import Plan
from arco.flow.plan.planner import plan
from arco.flow.plan.table_state import PlanningState
from bench.figure import Figure
from tests.flow.plan.model import Lake

_START = datetime(2010, 1, 1, tzinfo=UTC)
_TIMES = 5
_KNOWN = 100_000
_PROMISED_MS = {1_000: 50, 10_000: 500}
_HEAD = """
from arco.flow.define import asset, source, table
from arco.flow.partition import Daily, Hourly, Static

HOURS = Hourly("hour", start="2010-01-01T00")
source("raw.events", partitions=HOURS)

@asset("silver.events", partitions=HOURS)
def events(raw=table("raw.events")):
    return raw

"""
T = TypeVar("T")


@dataclass(frozen=True)
class _Shape:
    """How a second asset reads the first; `share` is the part of all tasks that the first one has."""

    name: str
    partitions: str
    reads: str
    share: float

    def project(self, folder: Path) -> Project:
        """A project of this shape."""
        (folder / "pipelines").mkdir(parents=True)
        cut = f", partitions={self.partitions}" if self.partitions else ""
        text = (
            f'@asset("gold.out"{cut})\ndef out(events=table("silver.events"{self.reads})): pass\n'
        )
        (folder / "pipelines" / "shape.py").write_text(_HEAD + text)
        project = load_project(folder)
        assert project.fingerprints  # they are made once for a load, before anybody plans
        return project


_SHAPES = (
    _Shape("same partition", "HOURS", "", 0.5),
    _Shape("window of 7", "HOURS", ", window=7", 0.5),
    _Shape("24 hours of a day", 'Daily("ds", start="2010-01-01")', "", 24 / 25),
    _Shape("all, 10 times", 'Static("part", list("0123456789"))', ', partitions="all"', 1.0),
)


async def run() -> list[Figure]:
    """Plan projects of four shapes, with nothing made and with everything made."""
    with TemporaryDirectory() as folder:
        projects = [
            (shape, shape.project(Path(folder) / str(number)))
            for number, shape in enumerate(_SHAPES)
        ]
        figures = [
            _missing(shape, project, tasks) for tasks in _PROMISED_MS for shape, project in projects
        ]
        return [*figures, *(_nothing_to_do(*each) for each in projects[:2])]


def _missing(shape: _Shape, project: Project, tasks: int) -> Figure:
    now = _START + timedelta(hours=round(tasks * shape.share))
    lake = Lake()
    lake.fill("raw.events", *project.tables["default.raw.events"].keys(now))
    state = lake.state()
    took_ms, planned = _best(lambda: _planned(project, state, now))
    floor_ms, _ = _best(lambda: _floor(planned))
    promised = _PROMISED_MS[tasks]
    return Figure(
        f"plan of {len(planned.tasks):,} tasks, {shape.name}, ms (baseline: sort, write and hash)",
        f"{took_ms:.1f}",
        f"{floor_ms:.1f}",
        f"{took_ms / floor_ms:.1f}",
        f"{promised} ms",
        took_ms <= promised,
    )


def _nothing_to_do(shape: _Shape, project: Project) -> Figure:
    now = _START + timedelta(hours=_KNOWN)
    lake = Lake()
    lake.fill("raw.events", *project.tables["default.raw.events"].keys(now))
    lake.run(project, _planned(project, lake.state(), now))
    state = lake.state()
    took_ms, planned = _best(lambda: plan(project, "gold.out", state, now))
    assert (len(planned.tasks), planned.up_to_date) == (0, _KNOWN)
    return Figure(
        f"nothing to do among {_KNOWN:,} known partitions, {shape.name}, ms",
        f"{took_ms:.0f}",
        promised="1000 ms",
        met=took_ms <= 1_000,
    )


def _planned(project: Project, state: PlanningState, now: datetime) -> Plan:
    made = plan(project, "", state, now)
    assert made.plan_id
    return made


def _floor(planned: Plan) -> str:
    """The same tasks and edges, by the plainest means of the standard library."""
    edges = {task.key: task.deps for task in planned.tasks}
    order = list(TopologicalSorter(edges).static_order())
    written = json.dumps([[key, edges[key]] for key in order], sort_keys=True)
    return hashlib.sha256(written.encode()).hexdigest()


def _best(work: Callable[[], T]) -> tuple[float, T]:
    """The shortest of some tries, in milliseconds, and what came out."""
    times = []
    for _ in range(_TIMES):
        gc.collect()
        started = time.perf_counter()
        result = work()
        times.append((time.perf_counter() - started) * 1_000)
    return min(times), result
