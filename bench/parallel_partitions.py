"""Partitions of one Iceberg table side by side: how many a second, how many fail, how many commits lose.

`arco run` makes 200 days of ten rows with `--parallel 1` and then 1,000 others with `--parallel 8`, against
one `arco up`. The rate is that between the first and the last partition, so that the start of Spark does
not count. Then four `arco worker` of two slots each make 200 more: attempts of one process queue for the
table, attempts of several do not. How the server has answered the commits is read from its metrics.
"""

import json
import re
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.request import urlopen

from bench.figure import Figure
from bench.process import Server, arco_up, first_line, running

_SLOTS = 8
_DAYS = {1: "2020-01-01..2020-07-18", _SLOTS: "2021-01-01..2023-09-27"}
_COUNTS = {1: 200, _SLOTS: 1_000}
_WORKERS, _WORKER_SLOTS = 4, 2
_WORKER_DAYS, _WORKER_COUNT = "2024-01-01..2024-07-18", 200
_MOST_LOST = 0.05
_PATIENCE_S = 1_800
_ARCO = str(Path(sys.executable).parent / "arco")
_PROJECT = """\
from arco import Daily, asset

@asset("raw.days", partitions=Daily("ds", start="2020-01-01", end="2026-01-01"))
def days(spark):
    return spark.range(10)
"""
_COMMITS = re.compile(
    r'^arco_http_requests_total\{operation="iceberg_update_table",status="(\d+)"\} (\S+)$',
    re.MULTILINE,
)


@dataclass(frozen=True)
class _Made:
    """What one run has made, and how the server has answered its commits."""

    done: int
    failed: int
    rate: float
    commits: int
    lost: int


async def run(scratch: Path) -> list[Figure]:
    """The rate of both, and what has failed with eight at once."""
    with TemporaryDirectory(dir=scratch) as folder:
        project = Path(folder, "project")
        (project / "pipelines").mkdir(parents=True)
        (project / "pipelines" / "days.py").write_text(_PROJECT)
        with arco_up(Path(folder, "arco")) as server:
            alone = _run(server, project, 1)
            together = _run(server, project, _SLOTS)
            spread = _run_workers(server, project)
    return [
        Figure(
            f"partitions of one Iceberg table a second, {_SLOTS} at once against one",
            f"{together.rate:.1f}",
            f"{alone.rate:.1f}",
            f"{together.rate / alone.rate:.2f} x",
        ),
        *_figures(together, f"{_SLOTS} at once", most_lost=_MOST_LOST),
        *_figures(spread, f"{_WORKERS} workers of {_WORKER_SLOTS}"),
    ]


def _figures(made: _Made, how: str, *, most_lost: float | None = None) -> list[Figure]:
    share = made.lost / max(made.commits, 1)
    return [
        Figure(
            f"partitions that failed, of {made.done + made.failed}, {how}",
            str(made.failed),
            promised="0",
            met=not made.failed,
        ),
        Figure(
            f"commits answered 409, of {made.commits}, {how}",
            f"{share:.1%}",
            promised="" if most_lost is None else f"{most_lost:.0%}",
            met=None if most_lost is None else share <= most_lost,
        ),
    ]


def _run(server: Server, project: Path, slots: int) -> _Made:
    before, url = _commits(server), f"http://127.0.0.1:{server.port}"
    command = [_ARCO, "run", "--project", str(project), "--url", url]
    command += ["--partitions", _DAYS[slots], "--parallel", str(slots)]
    moments: list[float] = []
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        moments.extend(
            time.perf_counter() for line in process.stdout or () if line.startswith("done ")
        )
    if len(moments) < 2:
        raise AssertionError(f"`{' '.join(command)}` has made {len(moments)} partitions")
    counts = _since(server, before)
    return _Made(
        done=len(moments),
        failed=_COUNTS[slots] - len(moments),
        rate=(len(moments) - 1) / (moments[-1] - moments[0]),
        commits=sum(counts.values()),
        lost=counts.get("409", 0),
    )


def _run_workers(server: Server, project: Path) -> _Made:
    """Several processes with a Spark each."""
    before, at = _commits(server), ["--url", f"http://127.0.0.1:{server.port}"]
    of_project = ["--project", str(project), *at]
    worker = [_ARCO, "worker", *of_project, "--slots", str(_WORKER_SLOTS), "--memory", "1g"]
    wanted = [_ARCO, "run", *of_project, "--partitions", _WORKER_DAYS, "--detach", "--json"]
    with ExitStack() as stack:
        workers = [stack.enter_context(running(worker, ends=(0, 143))) for _ in range(_WORKERS)]
        for each in workers:
            first_line(each)  # its Spark has started
        started = time.perf_counter()
        run_id = json.loads(subprocess.check_output(wanted))["run_id"]
        run = _await_end([_ARCO, "runs", run_id, *at, "--json"])
        took_s = time.perf_counter() - started
    done, counts = run["counts"].get("SUCCESS", 0), _since(server, before)
    return _Made(
        done=done,
        failed=_WORKER_COUNT - done,
        rate=done / took_s,
        commits=sum(counts.values()),
        lost=counts.get("409", 0),
    )


def _await_end(look: list[str]) -> Any:
    """A run once it is over, as a document."""
    until = time.monotonic() + _PATIENCE_S
    while time.monotonic() < until:
        run = json.loads(subprocess.check_output(look))
        if run["status"] in ("SUCCESS", "FAILED", "CANCELLED"):
            return run
        time.sleep(3)
    raise AssertionError(f"the run of the workers was not over after {_PATIENCE_S} s")


def _since(server: Server, before: dict[str, int]) -> dict[str, int]:
    """How often commits were answered since an earlier reading, by the status."""
    return {status: count - before.get(status, 0) for status, count in _commits(server).items()}


def _commits(server: Server) -> dict[str, int]:
    """How often commits were answered so far, by the status."""
    with urlopen(f"http://127.0.0.1:{server.port}/metrics") as answer:
        text = answer.read().decode()
    return {status: int(float(count)) for status, count in _COMMITS.findall(text)}
