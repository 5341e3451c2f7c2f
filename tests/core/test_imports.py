"""Commands that run no user's code do not load pandas, although Arrow would."""

import subprocess
import sys

import pytest

from arco.core.imports import is_spark_installed

_MAKE_ARRAY = "import pyarrow as pa, sys; pa.array([1]); print('pandas' in sys.modules)"
_HIDE = "from arco.core.imports import hide_pandas; hide_pandas(); "


def _run(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()


@pytest.mark.parametrize(("before", "is_loaded"), [("", "True"), (_HIDE, "False")])
def test_arrow_loads_pandas_unless_it_is_hidden(before: str, is_loaded: str) -> None:
    assert _run(before + _MAKE_ARRAY) == is_loaded


def test_spark_is_found_although_pandas_is_hidden() -> None:
    program = "from arco.core.imports import is_spark_installed; print(is_spark_installed())"
    assert _run(_HIDE + program) == "True"
    assert is_spark_installed()
