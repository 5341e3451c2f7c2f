"""The check of names finds what it must, and nothing else."""

import importlib.util
from pathlib import Path
from types import ModuleType

TOOL = Path(__file__).parents[2] / "tools" / "check_names.py"


def _load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_names", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


check_names = _load()


def test_a_class_that_is_defined_twice_is_named_with_both_places(tmp_path: Path) -> None:
    (tmp_path / "gc.py").write_text("class Report: ...\nclass _Report: ...\nclass GcReport: ...\n")
    (tmp_path / "scan.py").write_text("class Report: ...\nclass _Report: ...\n")
    [line] = check_names.problems(tmp_path.iterdir())
    assert line == f"class Report is defined 2 times: {tmp_path}/gc.py, {tmp_path}/scan.py"


def test_a_module_name_that_says_nothing_is_refused(tmp_path: Path) -> None:
    for name in ("desk.py", "utils.py", "manifest.py"):
        (tmp_path / name).write_text("")
    lines = check_names.problems(tmp_path.iterdir())
    assert [line.partition(":")[0] for line in lines] == [
        f"{tmp_path}/desk.py",
        f"{tmp_path}/utils.py",
    ]
