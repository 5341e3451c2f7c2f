"""CREATE TABLE of Arco's native API over HTTP, by one client and by many at once."""

import json
from collections.abc import Iterator

from bench.comparison import SECONDS, WARM_S, MeasuredPath, PathGroup, Round, Unit, all_succeeded
from bench.load import Write
from bench.rest import Catalog

_SCHEMAS = "/api/v1/catalogs/default/schemas"
_SCHEMA_COUNT = 20
_TABLES = 1_000
_CREATES = 40  # by one client
_COLUMNS = [{"name": f"column_{n}", "data_type": "bigint"} for n in range(10)]

_ALONE = MeasuredPath(f"native CREATE TABLE, one client, {_TABLES:,} tables", Unit.P50)
_SIXTEEN = MeasuredPath("native CREATE TABLE, 16 clients", Unit.PER_S)
_SIXTY_FOUR = MeasuredPath("native CREATE TABLE, 64 clients", Unit.PER_S)


def _measure(catalog: Catalog) -> Iterator[tuple[MeasuredPath, Round]]:
    """The tables of the warm-up are dropped at once, so that one client sees as many as is said."""
    for number in range(_SCHEMA_COUNT):
        catalog.call("POST", _SCHEMAS, {"name": f"schema_{number}"})
    warm = catalog.load(_create("warm", undo=True), connections=16, seconds=WARM_S)
    all_succeeded(warm)
    sixteen = catalog.load(_create("sixteen"), connections=16, count=_TABLES)
    yield _SIXTEEN, all_succeeded(sixteen)
    yield _ALONE, all_succeeded(catalog.load(_create("one"), connections=1, count=_CREATES))
    many = catalog.load(_create("many"), connections=64, seconds=SECONDS)
    yield _SIXTY_FOUR, all_succeeded(many)


def _create(label: str, *, undo: bool = False) -> Write:
    name = f"{label}_@writer@_@count@"
    table = {"name": name, "format": "PARQUET", "columns": _COLUMNS}
    places = [f"{_SCHEMAS}/schema_{number}/tables" for number in range(_SCHEMA_COUNT)]
    return Write(
        paths=tuple(places),
        bodies=(json.dumps(table),) * len(places),
        undo=tuple(f"{place}/{name}" for place in places) if undo else (),
    )


NATIVE_CREATES = PathGroup((_ALONE, _SIXTEEN, _SIXTY_FOUR), _measure, is_native=True)
