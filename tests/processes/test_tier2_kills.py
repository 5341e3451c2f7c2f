"""`kill -9` of all that compacts, under events: what was acknowledged is there once, in SQL."""

from pathlib import Path

import pytest

from arco.core.runtime import Runtime
from tests.figures import Figure
from tests.processes.kill_run import all_in_one, killed


@pytest.mark.interop
@pytest.mark.timeout(900)
async def test_no_event_is_lost_or_doubled_when_spark_or_its_server_is_killed(
    tmp_path: Path, runtime: Runtime, figure: Figure
) -> None:
    deployment = all_in_one(str(tmp_path / "store"), tmp_path, runtime)
    figure(await killed(deployment, ("executor", "JVM", "up"), pause_s=0.8, seed=6))
