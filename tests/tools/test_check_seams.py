import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
TOOL = ROOT / "tools" / "check_seams.py"


def _load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_seams", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


check_seams = _load()


def _find_names(text: str, path: str = "ledger/append.py") -> list[str]:
    return [finding.name for finding in check_seams.check_text(text, path)]


@pytest.mark.parametrize("module", sorted(check_seams.CLOCKS_AND_DICE))
def test_a_module_of_time_randomness_or_concurrency_is_found_when_imported(module: str) -> None:
    assert module in _find_names(f"import {module}")
    assert _find_names(f"from {module} import anything") == [f"{module}.anything"]


@pytest.mark.parametrize("name", sorted(check_seams.NAMES))
def test_a_forbidden_name_is_found_however_it_is_reached(name: str) -> None:
    module, _, rest = name.partition(".")
    first, _, others = rest.partition(".")
    tail = f".{others}" if others else ""

    assert _find_names(f"import {module}\nx = {name}()") == [name]
    assert _find_names(f"import {module} as other\nx = other.{rest}") == [name]
    assert name in _find_names(f"from {module} import {first} as other\nx = other{tail}()")
    assert name in _find_names(
        f"import {module}\nx = getattr({name.rpartition('.')[0]}, '{name.rpartition('.')[2]}')"
    )


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("import time as t\nt.sleep(1)", "time.sleep"),
        ("from time import sleep", "time.sleep"),
        ("from time import *", "time"),
        ("import asyncio.events", "asyncio.events"),
        ("import os.path, asyncio.events as e", "asyncio.events"),
        ("__import__('time')", "time"),
        ("import importlib\nimportlib.import_module('asyncio.tasks')", "asyncio.tasks"),
        ("from importlib import import_module as load\nload('random')", "random"),
        ("def later():\n    import secrets\n", "secrets"),
        ("if False:\n    import random as dice\n    dice.random()", "random.random"),
        ("import threading\nthreading.Timer(1, print)", "threading.Timer"),
        ("from threading import Thread", "threading.Thread"),
        ("from arco.core.clock import time", "arco.core.clock.time"),
        ("from arco.core import tasks\ntasks.asyncio.sleep(0)", "arco.core.tasks.asyncio.sleep"),
        ("from ulid import ULID\nULID()", "ulid.ULID"),
        ("class A:\n    now = __import__('time').time", "time"),
    ],
)
def test_aliases_and_detours_are_followed(text: str, name: str) -> None:
    assert name in _find_names(text)


def test_an_import_of_a_computed_name_is_refused_because_it_cannot_be_checked() -> None:
    assert _find_names("import importlib\nimportlib.import_module(name)") == ["a computed import"]


@pytest.mark.parametrize(
    "text",
    [
        "import threading\nlock = threading.Lock()\nme = threading.get_ident()",
        "from datetime import UTC, datetime, time\nx = datetime.fromtimestamp(0, UTC)",
        "from uuid import UUID, uuid5\nx = UUID(int=1)",
        "import os\nx = getattr(os, 'O_TMPFILE', 0)",
        "from ulid import ULID\nx: ULID = ULID.from_bytes(b'')",
        "async def f(clock, time):\n    await clock.sleep(1)\n    time.sleep(1)",
        "from arco.core.clock import Clock, utc",
        "from arco.core.tasks import run",
    ],
)
def test_what_only_looks_alike_is_left_alone(text: str) -> None:
    assert _find_names(text) == []


@pytest.mark.parametrize(
    ("library", "home", "elsewhere"),
    [
        ("obstore", "storage/cloud.py", "ledger/storage/cloud.py"),
        ("obstore", "storage/deep/cloud.py", "cli/doctor.py"),
        ("datafusion", "query/session.py", "catalog/query.py"),
        ("starlette", "api/routes.py", "iceberg/api/routes.py"),
        ("pyspark", "compactor/spark.py", "compactor/engine.py"),
        ("pyspark", "flow/spark/runner.py", "storage/spark.py"),
    ],
)
def test_a_heavy_library_is_imported_in_its_home_and_nowhere_else(
    library: str, home: str, elsewhere: str
) -> None:
    text = f"import {library}.something"

    assert _find_names(text, home) == []
    assert _find_names(text, elsewhere) == [library]


def test_a_permit_covers_its_own_file_and_no_other(tmp_path: Path) -> None:
    core = tmp_path / "core"
    core.mkdir()
    (core / "runtime.py").write_text("import random\nimport time\n")
    (core / "ids.py").write_text("import random\n")

    findings = [(finding.path, finding.name) for finding in check_seams.check(tmp_path)]

    assert findings == [("core/ids.py", "random"), ("core/runtime.py", "time")]


def test_a_permit_that_is_no_longer_needed_is_reported(tmp_path: Path) -> None:
    (tmp_path / "core").mkdir()
    (tmp_path / "core" / "runtime.py").write_text("x = 1\n")

    [finding] = check_seams.check(tmp_path)

    assert (finding.path, finding.name) == ("core/runtime.py", "random")
    assert "remove" in finding.advice


def test_every_permit_gives_its_reason() -> None:
    assert all(permit.reason for permit in check_seams.PERMITS)


def test_a_finding_fails_the_run_and_names_file_line_and_what_to_do(tmp_path: Path) -> None:
    package = tmp_path / "src" / "arco" / "ledger"
    package.mkdir(parents=True)
    (package / "append.py").write_text("\n\nfrom time import sleep\n")

    run = subprocess.run(
        [sys.executable, TOOL], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert run.returncode == 1
    assert "src/arco/ledger/append.py:3: time.sleep" in run.stderr
    assert "take the clock as an argument" in run.stderr


def test_our_own_source_keeps_the_seams() -> None:
    run = subprocess.run(
        [sys.executable, TOOL], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert run.stderr == ""
    assert run.returncode == 0
