"""Foreign clients send events at speed while all that takes and compacts them is killed, over and over."""

import os
import platform
from pathlib import Path

import pytest

from arco.core.runtime import Runtime
from tests.figures import Figure
from tests.processes.kill_run import all_in_one, apart, killed
from tests.stores import store_url

# A kill of Spark takes many seconds to mend, so these are fewer than the kills of the catalog's servers.
KILLS = max(4, int(os.environ.get("KILLS", "200")) // 20)

_OF_SPARK = ("child", "JVM", "executor")

pytestmark = [pytest.mark.interop, pytest.mark.timeout(3_600)]


def client() -> str:
    return f"http.client of Python {platform.python_version()}"


@pytest.mark.parametrize("kind", ["local", "minio"])
async def test_no_event_is_lost_or_doubled_in_arco_up(
    kind: str, tmp_path: Path, runtime: Runtime, figure: Figure, request: pytest.FixtureRequest
) -> None:
    arena = all_in_one(store_url(kind, request), tmp_path, runtime)
    figure(
        f"{await killed(arena, ('up', *_OF_SPARK), kills=KILLS, pause_s=0.15, seed=11)}; on {kind}"
    )


@pytest.mark.parametrize("kind", ["local", "minio"])
async def test_no_event_is_lost_or_doubled_by_two_compactors(
    kind: str, tmp_path: Path, runtime: Runtime, figure: Figure, request: pytest.FixtureRequest
) -> None:
    arena = apart(store_url(kind, request), tmp_path, runtime)
    kinds = ("API", "compactor", *_OF_SPARK)
    figure(f"{await killed(arena, kinds, kills=KILLS, pause_s=0.15, seed=12)}; on {kind}")
