"""The store is readable without Arco: the documented queries run on DuckDB and say what Arco says."""

from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

from arco.catalog.ddl import DropSchema, DropTable, SchemaName, UpdateTable
from tests.catalog.catalog_setup import SCOPE, S, names_in, new_table, open_setup, started, t
from tests.compactor.small_catalog import manifest_path, resealed

SQL = Path(__file__).parents[2] / "docs" / "how-to" / "sql"


def run(name: str, workspace: Path) -> list[tuple[object, ...]]:
    """The answer of a documented query."""
    with duckdb.connect() as connection:
        connection.execute(
            f"SET VARIABLE workspace = '{workspace}'; SET VARIABLE domain = 'catalog'"
        )
        return connection.execute((SQL / name).read_text()).fetchall()


async def store_on_disk(root: Path) -> Path:
    setup = await started(open_setup(url=str(root)))
    await setup.table("a", "x int")
    await setup.table("Größe 表", "x int")
    await setup.schema("s", "below")
    await setup.table("deep", schema=SchemaName("default", ("s", "below")))
    await setup.schema("dropped")
    await setup.table("with its schema", schema=SchemaName("default", ("dropped",)))
    await setup.table("gone")
    await setup.do(DropTable(target=t("gone")))
    await setup.close()
    return root / SCOPE.prefix


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "store"


async def test_the_chain_of_a_sound_catalog_has_no_problem(root: Path) -> None:
    assert run("check_chain.sql", await store_on_disk(root)) == []


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        (lambda raw: raw.replace(b'"rows_changed_at":5', b'"rows_changed_at":4'), "checksum"),
        (lambda raw: raw[:-1], "checksum"),
        (lambda raw: raw + b"\n", "checksum"),
        (lambda _: b"", "checksum"),
        (lambda _: b"garbage", "checksum"),
        (lambda raw: resealed(raw.replace(b'"number":5', b'"number":6')), "another number"),
    ],
)
async def test_a_link_that_was_changed_is_found(
    root: Path, spoil: Callable[[bytes], bytes], problem: str
) -> None:
    workspace = await store_on_disk(root)
    path = workspace / manifest_path(5)
    before = path.read_bytes()
    path.write_bytes(spoil(before))
    assert path.read_bytes() != before
    chain_rows = run("check_chain.sql", workspace)
    assert (5, True) in [(number, problem in str(text)) for number, text in chain_rows]


async def test_a_link_with_a_checksum_of_its_own_is_found_by_its_child(root: Path) -> None:
    workspace = await store_on_disk(root)
    path = workspace / manifest_path(5)
    path.write_bytes(resealed(path.read_bytes().replace(b'"fencing_token":', b'"fencing_token":1')))
    assert run("check_chain.sql", workspace) == [(6, "names another hash than its parent has")]


async def test_a_number_that_is_missing_is_found(root: Path) -> None:
    workspace = await store_on_disk(root)
    (workspace / manifest_path(5)).unlink()
    assert run("check_chain.sql", workspace) == [
        (6, "has no parent: the number below it is missing")
    ]


@pytest.mark.parametrize("merges", [0, 1, 2])
async def test_the_current_tables_are_those_that_arco_lists(root: Path, merges: int) -> None:
    workspace = await store_on_disk(root)
    setup = open_setup(url=str(root))
    for _ in range(merges):
        await setup.do(new_table(f"n{_}", schema=S))
        await setup.compactor.merge()
    below = SchemaName("default", ("s", "below"))
    await setup.do(
        UpdateTable(target=t("a"), schema=below.path),
        DropSchema(target=SchemaName("default", ("dropped",)), force=True),
    )
    snapshot = await setup.head()
    expected_rows = [("default", ["s"], name) for name in await names_in(snapshot, "s")]
    expected_rows += [
        ("default", ["s", "below"], name) for name in await names_in(snapshot, *below.path)
    ]
    await setup.close()
    table_rows = run("current_tables.sql", workspace)
    assert sorted(row[:3] for row in table_rows) == sorted(expected_rows)
    assert ("default", ["s", "below"], "a") in expected_rows
    assert len(expected_rows) == 3 + merges
