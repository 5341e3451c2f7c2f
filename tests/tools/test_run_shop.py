"""What `make demo` shows of the shop."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "run_shop.py"


def _load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("run_shop", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_demo_shows_a_run_without_steps_to_an_arco_that_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run_shop, arco = _load(), tmp_path / "arco"
    arco.write_text(
        '#!/bin/sh\necho "$1 at $ARCO_URL"\nprintf "\\nNext:\\n  arco runs\\n"\nexit 1\n'
    )
    arco.chmod(0o755)
    monkeypatch.setattr(run_shop, "ARCO", arco)

    assert run_shop.run_without_steps("http://demo", "run") == 1
    assert capsys.readouterr().out == "run at http://demo\n\n"


@pytest.mark.interop
@pytest.mark.timeout(600)
@pytest.mark.parametrize("table_format", ["iceberg", "parquet"])
def test_the_demo_of_the_shop_ends_well(table_format: str) -> None:
    demo = subprocess.run(
        [sys.executable, TOOL, "--demo", "--format", table_format],
        check=False,
        capture_output=True,
        text=True,
    )
    assert demo.returncode == 0, demo.stdout + demo.stderr
    assert "Traceback" not in demo.stderr
