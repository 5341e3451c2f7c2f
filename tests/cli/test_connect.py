"""`arco connect`, and the page of the documentation that shows the same lines."""

import ast
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from arco.cli.connect import CatalogEndpoint, SnippetEngine, snippet
from arco.cli.flags import DEFAULT_URL
from tests.cli.command import arco, is_one_sentence
from tests.cli.serving import Served, serving

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "connect-engines.md"
PYTHON = (SnippetEngine.SPARK, SnippetEngine.PYICEBERG)
STRANGE = 'O\'Neil "x" \\ ü'


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("up") / "store") as up:
        yield up


@pytest.mark.parametrize("engine", SnippetEngine)
def test_the_lines_name_the_server_and_the_warehouse(served: Served, engine: SnippetEngine) -> None:
    lines = served.done("connect", engine)

    assert lines == snippet(engine, CatalogEndpoint(served.url, "default")) + "\n"
    assert f"{served.url}/iceberg" in lines
    assert "default" in lines
    assert "ARCO_TOKEN" not in lines


@pytest.mark.parametrize("engine", SnippetEngine)
def test_the_documentation_shows_the_same_lines(engine: SnippetEngine) -> None:
    blocks = PAGE.read_text(encoding="utf-8").split("```")

    language = "sql" if engine is SnippetEngine.DUCKDB else "python"
    assert f"{language}\n{snippet(engine, CatalogEndpoint(DEFAULT_URL, 'default'))}\n" in blocks


def test_the_documentation_shows_how_duckdb_gets_a_token() -> None:
    door = CatalogEndpoint(DEFAULT_URL, "default", with_token=True)

    assert f"```sql\n{snippet(SnippetEngine.DUCKDB, door)}\n```" in PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("engine", SnippetEngine)
def test_a_token_is_named_and_never_printed(served: Served, engine: SnippetEngine) -> None:
    run = served.arco("connect", engine, ARCO_TOKEN="a-secret")

    assert run.returncode == 0, run.stderr
    assert "ARCO_TOKEN" in run.stdout
    assert "a-secret" not in run.stdout


@pytest.mark.parametrize("engine", PYTHON)
@pytest.mark.parametrize("with_token", [False, True])
def test_any_name_of_a_warehouse_survives_in_python(
    engine: SnippetEngine, with_token: bool
) -> None:
    lines = snippet(engine, CatalogEndpoint(DEFAULT_URL, STRANGE, with_token=with_token))

    literals = [node.value for node in ast.walk(ast.parse(lines)) if isinstance(node, ast.Constant)]
    assert STRANGE in literals


def test_any_name_of_a_warehouse_survives_in_sql() -> None:
    lines = snippet(SnippetEngine.DUCKDB, CatalogEndpoint(DEFAULT_URL, STRANGE))

    attach = next(line for line in lines.splitlines() if line.startswith("ATTACH"))
    literal = attach.removeprefix("ATTACH ").partition(" AS arco")[0]
    assert duckdb.execute(f"SELECT {literal}").fetchone() == (STRANGE,)


def test_a_warehouse_of_another_name_is_asked_for_first(served: Served) -> None:
    served.done("catalog", "create", "lake")
    lines = served.done("connect", "pyiceberg", "--warehouse", "lake")
    run = served.arco("connect", "pyiceberg", "--warehouse", "ocean")

    assert 'warehouse="lake"' in lines
    assert (run.returncode, run.stdout) == (1, "")
    assert is_one_sentence(run.stderr)
    assert "ocean" in run.stderr


def test_without_a_server_it_says_how_to_start_one() -> None:
    run = arco("connect", "spark", "--url", "http://127.0.0.1:9")

    assert (run.returncode, run.stdout) == (1, "")
    assert "`arco up`" in run.stderr


@pytest.mark.parametrize("arguments", [(), ("flink",)])
def test_an_engine_has_to_be_one_that_is_known(arguments: tuple[str, ...]) -> None:
    run = arco("connect", *arguments)

    assert run.returncode == 2
    assert is_one_sentence(run.stderr)
    assert "arco connect --help" in run.stderr


def test_its_help_gives_examples() -> None:
    run = arco("connect", "--help")

    assert "Examples:\n  arco connect pyiceberg" in run.stdout
