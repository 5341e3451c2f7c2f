"""The book of runs over HTTP."""

import subprocess
import sys


def test_a_command_that_speaks_to_a_server_imports_neither_one_nor_arrow() -> None:
    """Either costs more than to plan over a hundred thousand partitions."""
    servers = ["arco.api.services", "arco.catalog.reader", "uvicorn", "datafusion", "pyspark"]
    servers += ["pyarrow", "numpy", "pandas"]
    asked = (
        "import sys, arco.client.coordinator, arco.cli.flow.plan, arco.flow.plan.planner\n"
        f"print([each for each in {servers!r} if each in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
