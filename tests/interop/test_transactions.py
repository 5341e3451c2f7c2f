"""DuckDB commits two tables at once while PyIceberg looks: no reader sees half of a transaction."""

import pytest
from pyiceberg.catalog import Catalog

from tests.figures import Figure
from tests.interop import duckdb_client, pyiceberg_client
from tests.interop.pyiceberg_client import IDS, ids
from tests.interop.rest import Rest
from tests.interop.writers import writing

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

WRITERS = 3
PAIRS_EACH = 8


def client() -> str:
    return f"{duckdb_client.name()} watched by {pyiceberg_client.name()}"


def test_what_one_table_shows_the_other_shows_too(
    rest: Rest, catalog: Catalog, namespace: str, figure: Figure
) -> None:
    for name in ("a", "b"):
        catalog.create_table((namespace, name), IDS)
    looks, halves = 0, []
    with writing(
        "tests.interop.pairing", [rest], namespace, count=WRITERS, rows=PAIRS_EACH
    ) as writers:
        while writers.are_busy():
            # Nothing is ever deleted, so what is looked at later has all that the other had before.
            first, second = ("a", "b") if looks % 2 else ("b", "a")
            before = ids(catalog.load_table((namespace, first)))
            after = ids(catalog.load_table((namespace, second)))
            halves += [f"{each} is in {first} alone" for each in set(before) - set(after)]
            looks += 1
        outcomes = writers.outcomes()

    assert halves == []
    a, b = (ids(catalog.load_table((namespace, name))) for name in ("a", "b"))
    assert a == b
    assert outcomes.faults(a) == []
    assert len(outcomes.done) == WRITERS * PAIRS_EACH
    figure(
        f"{client()}: {len(outcomes.done)} transactions of two tables, {looks} looks, 0 halves seen"
    )
