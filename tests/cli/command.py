"""The command as a user runs it: a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

ARCO = Path(sys.executable).with_name("arco")

Run = subprocess.CompletedProcess[str]


def arco(*arguments: str | Path, cwd: Path | None = None, **variables: str) -> Run:
    """Run `arco` with these arguments and, of the ARCO_ variables, only these."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("ARCO_")}
    # A process that inherits a narrow terminal from somewhere would wrap its help differently.
    environment = inherited | {"COLUMNS": "100"} | variables
    return subprocess.run(
        [ARCO, *arguments], capture_output=True, text=True, check=False, cwd=cwd, env=environment
    )


def is_one_sentence(text: str) -> bool:
    """Whether an error is what a person should see: short, ours, and no traceback."""
    return text.startswith("arco: ") and text.count("\n") == 1 and "Traceback" not in text
