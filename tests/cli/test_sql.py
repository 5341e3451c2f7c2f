import asyncio
import csv
import io
import json
import subprocess
from pathlib import Path

import pyarrow as pa
import pytest

from arco.core.runtime import system_runtime
from arco.core.scope import Scope
from arco.fold.tier2 import EXECUTIONS_DOMAIN
from arco.ledger.writer import LedgerWriter
from arco.storage.address import parse_address
from arco.storage.open import open_backend
from arco.storage.roles import Role
from arco.storage.store import Store
from tests.cli import command
from tests.cli.command import Run, is_one_sentence
from tests.cli.serving import serving
from tests.query.random_events import Events


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that a server has written and left."""
    directory = tmp_path_factory.mktemp("sql") / "store"
    with serving(directory) as served:
        served.done("schema", "create", "sales", "--comment", "a, b\nand c")
        for name in ("orders", "parts"):
            served.done("table", "create", f"sales.{name}", "--format", "csv", "--tag", "gold")
    return directory


def sql(root: Path, *arguments: str) -> Run:
    return command.arco("sql", *arguments, "--root", root)


def test_a_store_is_asked_without_a_server(root: Path) -> None:
    run = sql(root, "SELECT name, format FROM system.tables ORDER BY name")

    assert run.returncode == 0, run.stderr
    assert run.stdout == "name    format\norders  CSV\nparts   CSV\n"


def test_the_past_is_asked_too(root: Path) -> None:
    run = sql(root, "SELECT count(*) AS n FROM system.tables", "--as-of", "2", "--json")

    assert json.loads(run.stdout) == {"columns": [{"name": "n", "type": "int64"}], "rows": [[1]]}


def test_what_is_not_compacted_yet_is_asked_for_by_name(root: Path) -> None:
    asyncio.run(_tell(root))
    asked = "SELECT execution_id FROM system.executions WHERE status = 'RUNNING'"

    assert sql(root, asked, "--csv").stdout == "execution_id\n"
    assert sql(root, asked, "--csv", "--fresh").stdout == "execution_id\nr1\n"
    refused = sql(root, asked, "--fresh", "--as-of", "2")
    assert refused.returncode != 0
    assert "fresh" in refused.stderr


async def _tell(root: Path) -> None:
    """Append an event, as a server does."""
    runtime = system_runtime()
    backend = open_backend(parse_address(str(root)), runtime, fsync=False)
    writer = LedgerWriter(Store(backend, runtime, scope=Scope(), role=Role.API), EXECUTIONS_DOMAIN)
    line = Events(runtime, EXECUTIONS_DOMAIN, 1).line("execution_started", execution_id="r1")
    await writer.append_lines([line])
    await writer.close()


def test_csv_keeps_commas_lines_and_lists_apart(root: Path) -> None:
    run = sql(root, "SELECT comment, tags, NULL AS x FROM system.schemas", "--csv")

    assert list(csv.reader(io.StringIO(run.stdout))) == [
        ["comment", "tags", "x"],
        ["a, b\nand c", "[]", ""],
    ]


def test_an_arrow_file_holds_the_same(root: Path, tmp_path: Path) -> None:
    file = tmp_path / "tables.arrow"

    run = sql(root, "SELECT name FROM system.tables ORDER BY name", "--arrow", str(file))

    assert run.stdout == f"Wrote 2 rows to {file}.\n"
    with pa.OSFile(str(file)) as opened:
        assert pa.ipc.open_file(opened).read_all().to_pydict() == {"name": ["orders", "parts"]}


def test_a_query_may_come_from_stdin(root: Path) -> None:
    answer = subprocess.check_output(
        [command.ARCO, "sql", "-", "--root", root, "--json"], input="SELECT 1 AS one", text=True
    )

    assert json.loads(answer)["rows"] == [[1]]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("DROP TABLE system.tables",), 2),
        (("SELECT nothing FROM system.tables",), 2),
        (("SELECT 1", "--json", "--csv"), 2),
        (("",), 2),
        (("SELECT 1", "--as-of", "99999"), 1),
        (("SELECT 1", "--arrow", "/no/such/directory/x.arrow"), 2),
    ],
)
def test_what_cannot_be_answered_is_one_sentence(
    arguments: tuple[str, ...], code: int, root: Path
) -> None:
    run = sql(root, *arguments)

    assert run.returncode == code
    assert is_one_sentence(run.stderr), run.stderr


def test_asking_makes_no_store(tmp_path: Path) -> None:
    run = sql(tmp_path / "nothing", "SELECT 1")

    assert run.returncode == 1
    assert is_one_sentence(run.stderr)
    assert list(tmp_path.iterdir()) == []


def test_help_gives_examples() -> None:
    shown = command.arco("sql", "--help").stdout

    assert "Examples:\n  arco sql " in shown
    assert "ARCO_SQL" not in shown


def test_of_two_places_the_flag_wins_over_the_variable(root: Path) -> None:
    run = command.arco("sql", "SELECT 1", "--root", root, ARCO_STORE="gs://elsewhere")

    assert run.returncode == 0, run.stderr


def test_a_running_arco_answers_where_a_variable_names_it(tmp_path: Path) -> None:
    asked = "SELECT name FROM system.tables"
    with serving(tmp_path / "store") as served:
        served.done("schema", "create", "sales")
        served.done("table", "create", "sales.orders", "--format", "csv")
        assert served.done("sql", asked) == "name\norders\n"  # it sets ARCO_URL
        assert served.done("sql", asked, "--root", str(served.root)) == "name\norders\n"
    result = command.arco("sql", asked, ARCO_URL=served.url)
    assert "no Arco is running" in result.stderr


def test_the_rows_of_a_users_table_are_elsewhere(root: Path) -> None:
    for name in ("sales.orders", "default.sales.orders", "orders"):
        run = sql(root, f"SELECT * FROM {name}")
        assert run.returncode != 0
        assert "`arco preview SCHEMA.TABLE`" in run.stderr
