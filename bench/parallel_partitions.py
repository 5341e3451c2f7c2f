"""Partitions of one Iceberg table side by side: how many a second, how many fail, how many commits lose.

`arco run` makes 200 days of ten rows with `--parallel 1` and then 1,000 others with `--parallel 8`, against
one `arco up`. The rate is that between the first and the last partition, so that the start of Spark does
not count. How the server has answered the commits is read from its metrics.
"""

import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.request import urlopen

from bench.figure import Figure
from bench.process import Server, arco_up

_SLOTS = 8
_DAYS = {1: "2026-01-01..2026-07-19", _SLOTS: "2027-01-01..2029-09-26"}
_COUNTS = {1: 200, _SLOTS: 1_000}
_MOST_LOST = 0.05
_ARCO = str(Path(sys.executable).parent / "arco")
_PROJECT = """\
from arco import Daily, asset

@asset("raw.days", partitions=Daily("ds", start="2026-01-01", end="2030-01-01"))
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
    share = together.lost / max(together.commits, 1)
    return [
        Figure(
            f"partitions of one Iceberg table a second, {_SLOTS} at once against one",
            f"{together.rate:.1f}",
            f"{alone.rate:.1f}",
            f"{together.rate / alone.rate:.2f} x",
        ),
        Figure(
            f"partitions that failed, of {together.done + together.failed}, {_SLOTS} at once",
            str(together.failed),
            promised="0",
            met=not together.failed,
        ),
        Figure(
            f"commits answered 409, of {together.commits}, {_SLOTS} at once",
            f"{share:.1%}",
            promised=f"{_MOST_LOST:.0%}",
            met=share <= _MOST_LOST,
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
    after = _commits(server)
    counts = {status: count - before.get(status, 0) for status, count in after.items()}
    return _Made(
        done=len(moments),
        failed=_COUNTS[slots] - len(moments),
        rate=(len(moments) - 1) / (moments[-1] - moments[0]),
        commits=sum(counts.values()),
        lost=counts.get("409", 0),
    )


def _commits(server: Server) -> dict[str, int]:
    """How often commits were answered so far, by the status."""
    with urlopen(f"http://127.0.0.1:{server.port}/metrics") as answer:
        text = answer.read().decode()
    return {status: int(float(count)) for status, count in _COMMITS.findall(text)}
