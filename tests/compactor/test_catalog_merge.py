"""Merges change no rows but expired ones; a rebuild from the events gives the same rows."""

import asyncio
import random
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

from arco.catalog.ddl import (
    AddColumns,
    CatalogName,
    CreateCatalog,
    CreateSchema,
    Ddl,
    DropCatalog,
    DropColumn,
    DropSchema,
    DropTable,
    SchemaName,
    Undrop,
    UpdateColumn,
    UpdateSchema,
    UpdateTable,
)
from arco.catalog.decision import DEFAULT_RETENTION
from arco.catalog.event import read_event
from arco.catalog.manifest import read_commit
from arco.catalog.model import SchemaRow, to_columns
from arco.compactor.catalog_compactor import CatalogCompactor
from arco.compactor.catalog_tail import shorten_tail
from arco.compactor.publisher import Publisher
from arco.core.errors import AlreadyExists, Conflict, NotFound
from arco.core.ids import new_ulid
from arco.fold.fold import fold
from arco.fold.tier1 import COMMIT, DOMAIN, POSITION, TIER1
from arco.ledger.segment import decode_event, decode_segment
from arco.storage.roles import Role
from tests.catalog.catalog_setup import (
    CatalogSetup,
    S,
    after,
    all_rows,
    names_in,
    new_table,
    open_setup,
    spec,
    started,
    t,
    without_marks,
)
from tests.storage.interposed import Interposed

Rows = dict[str, list[dict[str, object]]]

LONG_AGO = DEFAULT_RETENTION + timedelta(days=2)


async def rows_of(setup: CatalogSetup) -> Rows:
    """All rows as a stranger reads them."""
    return await all_rows(setup.store(Role.READER), await setup.cold().head())


async def rebuilt(setup: CatalogSetup) -> Rows:
    """The rows from the events that commits name, in the order in which they were committed."""
    store = setup.store(Role.API)
    stamped: dict[str, list[dict[str, object]]] = {name: [] for name in TIER1}
    for manifest in await setup.manifests():
        commit = await read_commit(store, manifest.commit)
        counts = dict.fromkeys(TIER1, 0)
        for operation in commit.operations:
            stream, seq = operation.event_path.removesuffix(".jsonl").split("/")[-2:]
            segment = decode_segment(await store.get(operation.event_path), stream, int(seq))
            event = decode_event(segment.lines[operation.line - 1])
            assert event.event_id == operation.event_id
            for name, rows in read_event(event)[1].items():
                for row in rows:
                    order = {COMMIT: commit.number, POSITION: counts[name]}
                    stamped[name].append(to_columns(row) | order)
                    counts[name] += 1
    return {
        name: fold(table, pa.Table.from_pylist(stamped[name], schema=table.schema)).to_pylist(
            maps_as_pydicts="strict"
        )
        for name, table in TIER1.items()
    }


def anything(rng: random.Random) -> Ddl:
    """Some request; half of them are refused."""
    schema = rng.choice([("s",), ("s2",), ("s", "in")])
    other = rng.choice([("s",), ("s2",), ("s", "in")])
    target = t(rng.choice("abc"), *schema)
    requests: list[Callable[[], Ddl]] = [
        lambda: new_table(target.table, "x int", "y int", schema=SchemaName("default", schema)),
        lambda: new_table(target.table, "x int", schema=SchemaName("default", schema)),
        lambda: UpdateTable(target=target, name=rng.choice("abc"), tags=("n",)),
        lambda: UpdateTable(target=target, schema=other),
        lambda: DropTable(target=target),
        lambda: AddColumns(target=target, columns=(spec(f"{rng.choice('xyz')} int"),)),
        lambda: DropColumn(target=target, column=rng.choice("xyz")),
        lambda: UpdateColumn(target=target, column="x", position=0, comment="c"),
        lambda: CreateSchema(catalog="default", parent=schema[:-1], name=schema[-1]),
        lambda: UpdateSchema(target=SchemaName("default", ("s2",)), comment=str(rng.random())),
        lambda: DropSchema(target=SchemaName("default", ("s", "in")), force=True),
    ]
    return rng.choice(requests)()


async def attempt(setup: CatalogSetup, request: Ddl) -> bool:
    try:
        await setup.do(request)
    except (AlreadyExists, NotFound, Conflict):
        return False
    except Exception as refused:
        assert type(refused).__name__ in ("Invalid", "NotEmpty"), refused
        return False
    return True


@pytest.mark.parametrize("seed", range(4))
async def test_a_merge_changes_no_row_and_a_rebuild_gives_the_same(seed: int) -> None:
    rng = random.Random(seed)
    setup = await started()
    await setup.schema("s2")
    await setup.schema("s", "in")
    done = 0
    while done < 40:
        done += await attempt(setup, anything(rng))
        if rng.random() < 0.1:
            before = await rows_of(setup)
            if await setup.compactor.merge() is not None:
                assert await rows_of(setup) == without_marks(before)
        elif rng.random() < 0.1:
            before = await rows_of(setup)
            await shorten_tail(Publisher(setup.store(Role.COMPACTOR), DOMAIN))
            assert await rows_of(setup) == before
    await setup.compactor.close()
    rows = without_marks(await rows_of(setup))
    assert rows == without_marks(await rebuilt(setup))
    assert len(rows["tables"]) > 3
    await setup.close()


class Pausing:
    """A compactor whose merge stops, before it publishes, until something else has happened."""

    def __init__(
        self, setup: CatalogSetup, meanwhile: Callable[[], Coroutine[Any, Any, object]]
    ) -> None:
        self.backend = Interposed(setup.backend, before=self._before)
        self.compactor = CatalogCompactor(setup.store(Role.COMPACTOR, self.backend))
        self._meanwhile = meanwhile
        self._done = False

    async def _before(self, verb: str, key: str) -> None:
        if verb == "create" and "/manifests/" in key and not self._done:
            self._done = True
            await self._meanwhile()


async def test_a_merge_is_published_over_commits_that_were_made_meanwhile() -> None:
    setup = await started()
    await setup.schema("s2")
    for name in "abc":
        await setup.table(name, "x int")

    async def meanwhile() -> None:
        await setup.do(DropTable(target=t("a")), UpdateTable(target=t("b"), schema=("s2",)))
        await setup.table("d", "x int")

    pausing = Pausing(setup, meanwhile)
    merged = await pausing.compactor.merge()
    assert merged is not None
    manifest = (await setup.manifests())[merged.manifest_version]
    assert {len(files) for files in manifest.tail.values()} <= {1, 2, 3}
    assert manifest.rows_changed_at == merged.manifest_version - 1
    snapshot = await setup.cold().head()
    assert (await names_in(snapshot), await names_in(snapshot, "s2")) == (["c", "d"], ["b"])
    assert await rows_of(setup) == await rebuilt(setup)
    await setup.close()
    await pausing.compactor.close()


async def test_of_two_merges_at_once_one_is_published() -> None:
    setup = await started()
    await setup.table("a", "x int")
    results: list[object] = []

    async def meanwhile() -> None:
        results.append(await setup.compactor.merge())

    pausing = Pausing(setup, meanwhile)
    assert await pausing.compactor.merge() is None
    assert results[0] is not None
    assert await rows_of(setup) == await rebuilt(setup)
    await setup.close()
    await pausing.compactor.close()


async def test_a_merge_whose_files_may_have_been_collected_starts_again() -> None:
    setup = await started()
    await setup.table("a", "x int")

    async def meanwhile() -> None:
        setup.clock.set_forward(timedelta(hours=1))
        mark = new_ulid(setup.runtime)
        setup.clock.set_forward(timedelta(seconds=1))
        await setup.compactor.mark_orphans(mark)

    pausing = Pausing(setup, meanwhile)
    assert await pausing.compactor.merge() is None
    assert (await setup.manifests())[-1].base.index is None
    assert await pausing.compactor.merge() is not None
    assert await names_in(await setup.cold().head()) == ["a"]
    await setup.close()
    await pausing.compactor.close()


async def test_commits_and_merges_never_starve_each_other() -> None:
    setup = await started()

    async def ddl() -> None:
        for n in range(12):
            await setup.table(f"t{n:02d}", "x int")

    async def merges() -> int:
        return sum([await setup.compactor.merge() is not None for _ in range(8)])

    _, merged = await asyncio.gather(ddl(), merges())
    assert merged >= 2
    assert len(await names_in(await setup.cold().head())) == 12
    assert await rows_of(setup) == await rebuilt(setup)
    await setup.close()


# Forgetting


async def ids_in(setup: CatalogSetup) -> dict[str, set[object]]:
    """The ids of the rows of each table."""
    keys = {"catalogs": "catalog_id", "schemas": "schema_id", "tables": "table_id"}
    keys |= {"columns": "table_id", "schema_versions": "table_id", "objects": "id"}
    rows = await rows_of(setup)
    return {name: {row[key] for row in rows[name]} for name, key in keys.items()}


@pytest.mark.parametrize("merged_before", [True, False])
async def test_a_table_dropped_long_ago_is_forgotten_with_all_that_is_its_own(
    *, merged_before: bool
) -> None:
    setup = await started()
    expired_id = await setup.table("gone", "x int", "y int")
    kept_id = await setup.table("kept", "x int", "y int")
    await setup.do(DropTable(target=t("gone")), DropColumn(target=t("kept"), column="y"))
    if merged_before:
        await setup.compactor.merge()
    setup.clock.set_forward(LONG_AGO)
    late_id = await setup.table("late")
    await setup.do(DropTable(target=t("late")))
    merged = await setup.compactor.merge()
    assert merged is not None
    assert (await setup.manifests())[-1].rows_changed_at == merged.manifest_version
    ids = await ids_in(setup)
    for name in ("tables", "columns", "schema_versions", "objects"):
        assert expired_id.table_id not in ids[name], name
        assert kept_id.table_id in ids[name], name
    assert late_id.table_id in ids["tables"], "it was dropped only now"
    assert [row["name"] for row in (await rows_of(setup))["columns"]] == ["x"]
    await setup.do(Undrop(id=late_id.table_id))
    with pytest.raises(NotFound):
        await setup.do(Undrop(id=expired_id.table_id))
    await setup.close()


@pytest.mark.parametrize("merged_before", [True, False])
async def test_a_schema_dropped_long_ago_takes_all_below_it_along(*, merged_before: bool) -> None:
    setup = await started()
    await setup.schema("s", "a")
    await setup.schema("s", "a", "b")
    deep = SchemaName("default", ("s", "a", "b"))
    table = await setup.table("deep", "x int", schema=deep)
    moved = await setup.table("moved", "x int", schema=deep)
    await setup.do(UpdateTable(target=t("moved", "s", "a", "b"), schema=("s",)))
    dropped = await setup.do(DropSchema(target=SchemaName("default", ("s", "a")), force=True))
    if merged_before:
        await setup.compactor.merge()
    setup.clock.set_forward(LONG_AGO)
    assert await setup.compactor.merge() is not None
    ids = await ids_in(setup)
    assert isinstance(dropped.object.row, SchemaRow)
    snapshot = await setup.cold().head()
    s = await snapshot.schema(S)
    assert ids["schemas"] == {s.row.schema_id}
    for name in ("tables", "columns", "schema_versions"):
        assert ids[name] == {moved.table_id}, name
    assert ids["objects"] == {s.row.schema_id, s.row.catalog_id, moved.table_id}
    assert table.table_id not in ids["objects"]
    assert await names_in(snapshot) == ["moved"]
    assert await setup.compactor.merge() is None, "there is nothing left to forget"
    await setup.close()


async def test_a_catalog_dropped_long_ago_takes_all_in_it_along() -> None:
    setup = await started()
    await setup.do(CreateCatalog(name="other"))
    await setup.schema("o", catalog="other")
    await setup.table("a", "x int", schema=SchemaName("other", ("o",)))
    kept_id = await setup.table("kept", "x int")
    await setup.do(DropCatalog(target=CatalogName("other"), force=True))
    setup.clock.set_forward(LONG_AGO)
    assert await setup.compactor.merge() is not None
    ids = await ids_in(setup)
    assert {name: len(row_ids) for name, row_ids in ids.items()} == {
        **dict.fromkeys(("catalogs", "schemas", "tables", "columns", "schema_versions"), 1),
        "objects": 3,
    }
    assert ids["tables"] == {kept_id.table_id}
    await setup.close()


async def test_what_came_back_in_time_is_not_forgotten() -> None:
    setup = await started()
    row = await setup.table("a", "x int")
    await setup.do(DropTable(target=t("a")))
    await setup.compactor.merge()
    setup.clock.set_forward(DEFAULT_RETENTION - timedelta(hours=1))
    await setup.do(Undrop(id=row.table_id))
    setup.clock.set_forward(LONG_AGO)
    merged = await setup.compactor.merge()
    assert merged is not None
    assert (await setup.manifests())[-1].rows_changed_at < merged.manifest_version
    assert await names_in(await setup.cold().head()) == ["a"]
    assert [row["name"] for row in (await rows_of(setup))["columns"]] == ["x"]
    await setup.close()


async def test_the_mark_of_a_moved_table_goes_unnoticed() -> None:
    setup = await started()
    await setup.schema("s2")
    row = await setup.table("a", "x int")
    await setup.compactor.merge()
    await setup.do(UpdateTable(target=t("a"), schema=("s2",)))
    assert any(row["_moved"] for row in (await rows_of(setup))["tables"])
    merged = await setup.compactor.merge()
    assert merged is not None
    assert [row["_moved"] for row in (await rows_of(setup))["tables"]] == [False]
    # No reader could see the mark, so no decision that is on its way has to be made again.
    assert (await setup.manifests())[-1].rows_changed_at < merged.manifest_version
    snapshot = await setup.cold().head()
    assert (await names_in(snapshot), await names_in(snapshot, "s2")) == ([], ["a"])
    assert (await snapshot.find(row.table_id)).row.name == "a"
    await setup.close()


async def test_a_decision_that_rested_on_what_was_forgotten_is_made_again() -> None:
    setup = await started(open_setup())
    row = await setup.table("a", "x int")
    await setup.do(DropTable(target=t("a")))

    async def forget() -> None:
        # A clock that is days behind decides to bring back what is being forgotten.
        setup.clock.set_forward(LONG_AGO)
        await setup.compactor.merge()

    setup.channel.next(after(forget))
    with pytest.raises(NotFound):
        await setup.do(Undrop(id=row.table_id))
    assert await names_in(await setup.cold().head()) == []
    await setup.close()
