"""Starts an Arco and runs the shop of examples/shop on it: `make run` and `make demo`.

`run_shop.py` works on ./.arco and keeps serving; `run_shop.py --demo` works on a temporary directory, looks
at what came of it, and stops. One check of the shop fails, and that is expected: anything else is an error.
"""

import argparse
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path
from types import FrameType
from typing import NoReturn

from arco.flow.spark.jars import ICEBERG, VARIABLE, jar_cache

REPOSITORY = Path(__file__).resolve().parent.parent
SHOP = REPOSITORY / "examples" / "shop"
ARCO = Path(sys.executable).with_name("arco")

FIRST_TABLE = "default.raw.customers"

# The day on which the tracker was broken, and what is made from it.
EXPECTED = {"silver.web_events@ds=2026-01-08", "gold.conversion@ds=2026-01-08"}

EXPLAINED = """\
One check has failed, as it should: on 2026-01-08 the web site lost its sessions. That day of
silver.web_events was not published, and gold.conversion waits for it; all else is there."""

PLAIN_FILES = (
    "If it is the jar that is missing, the shop runs without it: make {target} FORMAT=parquet"
)

KEPT_IN = """\
The shop in {root} is there in the format {other}, and stays in it: make run FORMAT={other}.
To start over: rm -r {root} && make run FORMAT={asked}"""

READ_IT = """\
from pyiceberg.catalog import load_catalog
catalog = load_catalog("arco", type="rest", uri="{url}/iceberg", warehouse="default")
print(catalog.load_table("gold.spend_7d").scan(row_filter="ds = '2026-01-14'").to_arrow().to_pandas())"""


def main() -> int:
    """The exit code: 0 if the shop came out as it should."""
    asked = _arguments()
    signal.signal(signal.SIGTERM, _end)  # a signal to this process ends the server too
    if not asked.demo:
        return _run(REPOSITORY / ".arco", asked)
    with tempfile.TemporaryDirectory(prefix="arco-demo-") as folder:
        return _run(Path(folder) / "store", asked)


def _end(number: int, _frame: FrameType | None) -> NoReturn:
    sys.exit(128 + number)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--demo", action="store_true", help="on a temporary directory; then stop")
    parser.add_argument("--format", choices=("iceberg", "parquet"), default="iceberg")
    parser.add_argument("--port", default=None, help="8181; for the demo any that is free")
    return parser.parse_args()


def _run(root: Path, asked: argparse.Namespace) -> int:
    port = asked.port or ("0" if asked.demo else "8181")
    with _serving(root, port, quiet=asked.demo) as (server, url):
        other = _other_format(url, asked.format)
        if other is not None:
            return _fail(KEPT_IN.format(root=_short(root), other=other, asked=asked.format))
        print(f"Arco runs at {url}, on {_short(root)}. Now the shop, {asked.format}.", flush=True)
        if asked.format == "iceberg" and not _has_jar():
            print("The jar of Iceberg for Spark is fetched first: 46 MB, once.", flush=True)
        print(flush=True)
        before = _last_run(url)
        command = ("run", *_project(asked.format))
        code = run_without_steps(url, *command) if asked.demo else _arco(url, *command).returncode
        if code != 0 or asked.demo:  # a shop that was repaired has no problems to show
            run = _last_run(url)
            if (
                code not in (0, 1) or run is None or run == before
            ):  # no run was started, and the command printed why
                return _without_a_run(asked, code)
            problem = _problem(url, run)
            if problem is not None:
                return _fail(f"\nThe shop did not come out as it should: {problem}")
            print(EXPLAINED if asked.demo else f"\n{EXPLAINED}")
        _declare_personal_data(url)
        if asked.demo:
            _look(url, root, asked.format)
            return 0
        _advise(url, asked.format)
        return _serve_on(server)


def _without_a_run(asked: argparse.Namespace, code: int) -> int:
    if asked.format != "iceberg":
        return code or 1
    return _fail(PLAIN_FILES.format(target="demo" if asked.demo else "run"))


def _fail(message: str) -> int:
    print(message, file=sys.stderr, flush=True)
    return 1


def _short(path: Path) -> str:
    """A path as one would type it where `make` was called."""
    try:
        return str(path.relative_to(REPOSITORY))
    except ValueError:
        return str(path)


@contextmanager
def _serving(
    root: Path, port: str, *, quiet: bool
) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """`arco up`, until the block ends. A demo leaves events in the ledger, where fresh reads find them."""
    flags = ["--no-spark"] if quiet else []
    command: list[str | Path] = [
        ARCO,
        "up",
        "--root",
        root,
        "--port",
        port,
        "--log-level",
        "warning",
        *flags,
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            ready = server.stdout.readline() if server.stdout is not None else ""
            match = re.search(r"http://[^ ,]+", ready)
            if match is None:
                sys.exit(server.wait() or 1)  # the server printed why
            yield server, match[0]
        finally:
            server.terminate()


def _serve_on(server: "subprocess.Popen[str]") -> int:
    try:
        return server.wait()
    except KeyboardInterrupt:
        return server.wait()  # the server got the signal too


def _other_format(url: str, asked: str) -> str | None:
    """The format of a shop that is there already, if it is another than the one asked for."""
    tables = json.loads(_arco(url, "table", "list", "--json", capture=True).stdout)["items"]
    formats = {each["format"].lower() for each in tables if each["full_name"] == FIRST_TABLE}
    return next(iter(formats - {asked}), None)


def _has_jar() -> bool:
    """Whether Spark will find the jar of Iceberg on this machine."""
    return VARIABLE in os.environ or (jar_cache() / ICEBERG.file_name).is_file()


def _last_run(url: str) -> str | None:
    runs = json.loads(_arco(url, "runs", "--limit", "1", "--json", capture=True).stdout)["items"]
    return str(runs[0]["run_id"]) if runs else None


def _problem(url: str, run: str) -> str | None:
    """What is not as it should be after the run, if anything is."""
    view = json.loads(_arco(url, "runs", run, "--json", capture=True).stdout)
    bad = {each["key"]: each["status"] for each in view["changed"] if each["status"] != "SUCCESS"}
    if set(bad) == EXPECTED and set(bad.values()) == {"BLOCKED"}:
        return None
    unexpected = [f"{key} {status.lower()}" for key, status in sorted(bad.items())]
    more = f" and {len(unexpected) - 3} more" if len(unexpected) > 3 else ""
    return (", ".join(unexpected[:3]) or "no check has failed") + more


def _declare_personal_data(url: str) -> None:
    """Mark the columns of the customers that hold personal data: no pipeline can know that."""
    for column, kind in (("name", "NAME"), ("email", "EMAIL"), ("phone", "PHONE")):
        pii_flags = ("--pii", kind, "--sensitivity", "confidential")
        _arco(url, "column", "change", "raw.customers", column, *pii_flags, capture=True)


def _project(format_: str) -> tuple[str, ...]:
    """The flags that name the shop and, unless it is Iceberg, the format of its tables."""
    return ("--project", _short(SHOP), *(() if format_ == "iceberg" else ("--format", format_)))


def _steps(format_: str) -> list[tuple[str, ...]]:
    """What to look at, as arguments of `arco`."""
    project = _project(format_)
    return [
        ("partitions", "silver.web_events", *project),
        ("explain", "gold.conversion", "2026-01-08", *project),
        ("lineage", "gold.spend_7d", "--columns"),
        ("table", "show", "raw.customers"),
    ]


def _queries() -> list[str]:
    failed = "SELECT check_name, severity, message FROM system.quality_results"
    return [
        "SELECT status, count(*) AS tasks, sum(rows_written) AS rows FROM system.tasks GROUP BY status",
        f"{failed} WHERE status = 'FAILED'",
    ]


def _look(url: str, root: Path, format_: str) -> None:
    """Show what came of it, each command as one would type it."""
    for arguments in _steps(format_):
        print(f"\n$ arco {shlex.join(arguments)}", flush=True)
        _arco(url, *arguments).check_returncode()
    for query in _queries():
        print(f'\n$ arco sql --fresh "{query}"', flush=True)
        _arco(url, "sql", "--root", root, "--fresh", query).check_returncode()
    if format_ == "iceberg":
        print("\nAnother engine, PyIceberg:", flush=True)
        subprocess.run([sys.executable, "-c", READ_IT.format(url=url)], check=True)
    print("\nThis Arco and its data are gone now. One that stays: make run")


def _advise(url: str, format_: str) -> None:
    own = f" --url {url}" if url != "http://127.0.0.1:8181" else ""
    print("\nLook at it from another terminal, in this folder:")
    print("  source .venv/bin/activate")
    for arguments in _steps(format_):
        print(f"  arco {shlex.join(arguments)}{own}")
    for query in _queries():
        print(f'  arco sql "{query}"')
    if format_ == "iceberg":
        print(f"  arco connect duckdb{own}    what to paste into DuckDB; also spark and pyiceberg")
    else:
        print(f"  arco table files gold.daily_sales{own}    what any engine can read")
    print(
        "\nWrite your own: `arco init my_project`, `cd my_project`, `arco run`, which finds this Arco; "
        "docs/how-to/write-pipelines.md is the guide. Ctrl-C stops Arco.",
        flush=True,
    )


def _arco(
    url: str, *arguments: str | Path, capture: bool = False
) -> "subprocess.CompletedProcess[str]":
    environment = _environment(url)
    if capture:
        environment.pop("ARCO_JSON", None)
    return subprocess.run(
        [ARCO, *arguments],
        cwd=REPOSITORY,
        env=environment,
        text=True,
        check=capture,
        stdout=subprocess.PIPE if capture else None,
    )


def run_without_steps(url: str, *arguments: str) -> int:
    """The exit code of a command whose steps at its end are not shown: their Arco will be gone."""
    with subprocess.Popen(
        [ARCO, *arguments],
        cwd=REPOSITORY,
        env={**_environment(url), "PYTHONUNBUFFERED": "1"},
        text=True,
        stdout=subprocess.PIPE,
    ) as process:
        lines = iter(process.stdout or ())
        for line in takewhile(lambda line: line != "Next:\n", lines):
            print(line, end="", flush=True)
        for _ in lines:
            pass
    return process.returncode


def _environment(url: str) -> dict[str, str]:
    return {**os.environ, "ARCO_URL": url}


if __name__ == "__main__":
    sys.exit(main())
