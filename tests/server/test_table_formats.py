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


def _fences(shop: IcebergSetup) -> tuple[TableFences, TableVersions]:
    api = shop.api()
    tables = ParquetTables(api.context.reader, shop.inner.store(Role.FLOW))
    return TableFences(api.context.reader, api.iceberg, tables), TableVersions(api.iceberg, tables)


async def _make(shop: IcebergSetup, name: str, format_: TableFormat) -> str:
    location = f"s3://elsewhere/{name}" if format_ is TableFormat.DELTA else None
    request = CreateTable(schema=S, name=name, format=format_, location=location)
    done = await shop.inner.do(request)
    return as_table(done).table_id


async def test_a_table_of_each_format_has_a_chain_head() -> None:
    shop, [ice] = await with_table("t")
    plain = await _make(shop, "p", TableFormat.PARQUET)
    delta = await _make(shop, "d", TableFormat.DELTA)
    fences, _ = _fences(shop)
    assert await fences.place("s.t") == TableHead(ice, "ICEBERG", 0)
    assert await fences.place("default.s.p") == TableHead(plain, "PARQUET", -1)
    assert await fences.place("s.d") == TableHead(delta, "DELTA", NO_CHAIN)
    assert await fences.place("s.nobody") is None
    assert await fences.place("nowhere.s.t") is None
    with pytest.raises(Invalid):
        await fences.place("t")


async def test_a_dropped_table_has_no_chain_head() -> None:
    shop, _ = await with_table("t")
    await _make(shop, "p", TableFormat.PARQUET)
    await shop.a.drop("t")
    await shop.inner.do(DropTable(target=t("p")))
    fences, _ = _fences(shop)
    assert await fences.place("s.t") is None
    assert await fences.place("s.p") is None


async def test_a_fence_goes_onto_the_chain_of_its_table() -> None:
    shop, [ice] = await with_table("t")
    plain = await _make(shop, "p", TableFormat.PARQUET)
    delta = await _make(shop, "d", TableFormat.DELTA)
    fences, _ = _fences(shop)
    assert await fences.fence(ice, attempt_at(shop, "two", 0), since=0) == 1
    assert await fences.fence(plain, attempt_at(shop, "two", -1), since=-1) == 0
    assert await fences.place("s.p") == TableHead(plain, "PARQUET", 0)
    with pytest.raises(Invalid):
        await fences.fence(delta, attempt_at(shop, "two", -1), since=-1)
    with pytest.raises(NotFound):
        await fences.fence("01a1e0f6-9113-7475-bb94-e3fac6dcb4cd", attempt_at(shop, "x", -1), -1)


async def test_versions_come_from_the_package_of_the_format() -> None:
    shop, [ice] = await with_table("t")
    plain = await _make(shop, "p", TableFormat.PARQUET)
    _, versions = _fences(shop)
    assert await versions.versions(ice, "ICEBERG") == (None, {})
    assert await versions.versions(plain, "PARQUET") == (None, {})
    assert await versions.versions(plain, "CSV") == (None, {})
