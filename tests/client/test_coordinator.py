"""The book of runs over HTTP."""

import subprocess
import sys


def test_a_command_that_speaks_to_a_server_does_not_import_one() -> None:
    """It costs more than to plan over a hundred thousand partitions."""
    servers = ["arco.api.services", "arco.catalog.reader", "starlette", "datafusion", "pyspark"]
    asked = (
        "import sys, arco.client.coordinator, arco.cli.flow.plan, arco.flow.plan.planner\n"
        f"print([each for each in {servers!r} if each in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
