"""Fences and versions go to the package of a table's format."""

import pytest

from arco.catalog.ddl import CreateTable, DropTable
from arco.catalog.model import TableFormat
from arco.core.errors import Invalid, NotFound
from arco.flow.coordinator.ports import TableHead
from arco.flow.publish.tables import ParquetTables
from arco.server.coordinator import NO_CHAIN, TableFences, TableVersions
from arco.storage.roles import Role
from tests.catalog.catalog_setup import S, as_table, t
from tests.iceberg.iceberg_setup import IcebergSetup, with_table
from tests.iceberg.publishing import attempt_at


def _fences(setup: IcebergSetup) -> tuple[TableFences, TableVersions]:
    api = setup.api()
    tables = ParquetTables(api.context.reader, setup.inner.store(Role.FLOW))
    return TableFences(api.context.reader, api.iceberg, tables), TableVersions(api.iceberg, tables)


async def _make(setup: IcebergSetup, name: str, format_: TableFormat) -> str:
    location = f"s3://elsewhere/{name}" if format_ is TableFormat.DELTA else None
    request = CreateTable(schema=S, name=name, format=format_, location=location)
    done = await setup.inner.do(request)
    return as_table(done).table_id


async def test_a_table_of_each_format_has_a_chain_head() -> None:
    setup, [ice] = await with_table("t")
    plain = await _make(setup, "p", TableFormat.PARQUET)
    delta = await _make(setup, "d", TableFormat.DELTA)
    fences, _ = _fences(setup)
    assert await fences.head("s.t") == TableHead(ice, "ICEBERG", 0)
    assert await fences.head("default.s.p") == TableHead(plain, "PARQUET", -1)
    assert await fences.head("s.d") == TableHead(delta, "DELTA", NO_CHAIN)
    assert await fences.head("s.nobody") is None
    assert await fences.head("nowhere.s.t") is None
    with pytest.raises(Invalid):
        await fences.head("t")


async def test_a_dropped_table_has_no_chain_head() -> None:
    setup, _ = await with_table("t")
    await _make(setup, "p", TableFormat.PARQUET)
    await setup.a.drop("t")
    await setup.inner.do(DropTable(target=t("p")))
    fences, _ = _fences(setup)
    assert await fences.head("s.t") is None
    assert await fences.head("s.p") is None


async def test_a_fence_goes_onto_the_chain_of_its_table() -> None:
    setup, [ice] = await with_table("t")
    plain = await _make(setup, "p", TableFormat.PARQUET)
    delta = await _make(setup, "d", TableFormat.DELTA)
    fences, _ = _fences(setup)
    assert await fences.fence(ice, attempt_at(setup, "two", 0), since=0) == 1
    assert await fences.fence(plain, attempt_at(setup, "two", -1), since=-1) == 0
    assert await fences.head("s.p") == TableHead(plain, "PARQUET", 0)
    with pytest.raises(Invalid):
        await fences.fence(delta, attempt_at(setup, "two", -1), since=-1)
    with pytest.raises(NotFound):
        await fences.fence("01a1e0f6-9113-7475-bb94-e3fac6dcb4cd", attempt_at(setup, "x", -1), -1)


async def test_versions_come_from_the_package_of_the_format() -> None:
    setup, [ice] = await with_table("t")
    plain = await _make(setup, "p", TableFormat.PARQUET)
    _, versions = _fences(setup)
    assert await versions.versions(ice, "ICEBERG") == (None, {})
    assert await versions.versions(plain, "PARQUET") == (None, {})
    assert await versions.versions(plain, "CSV") == (None, {})
