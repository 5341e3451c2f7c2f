"""Publishing: all that a manifest names exists before it, and a crash leaves a complete catalog."""

import asyncio

import pytest

from arco.catalog.ddl import DropTable, UpdateTable
from arco.catalog.manifest import manifests_of, read_commit
from arco.compactor.catalog_compactor import CatalogCompactor
from arco.core.errors import ArcoError, Denied, Unavailable, Unknown
from arco.fold.tier1 import DOMAIN
from arco.storage.roles import Role
from tests.catalog.catalog_setup import (
    SCOPE,
    ApiProcess,
    CatalogSetup,
    CompactorChannel,
    all_rows,
    names_in,
    new_table,
    open_setup,
    started,
    t,
)
from tests.storage.interposed import Interposed


class Spy:
    """Takes down creates in the order in which they are done, and can stop before one of them."""

    def __init__(self, setup: CatalogSetup) -> None:
        self.begun: list[str] = []
        self.ended: list[str] = []
        self.stop_at: int | None = None
        self.backend = Interposed(setup.backend, before=self._before, after=self._after)

    def clear(self) -> None:
        self.begun.clear()
        self.ended.clear()

    async def _before(self, verb: str, key: str) -> None:
        if verb == "create":
            if self.stop_at is not None and len(self.begun) >= self.stop_at:
                raise Denied("the process is gone")
            self.begun.append(key.removeprefix(SCOPE.prefix))

    async def _after(self, verb: str, key: str) -> None:
        if verb == "create":
            self.ended.append(key.removeprefix(SCOPE.prefix))


def spied(setup: CatalogSetup) -> tuple[Spy, ApiProcess, CatalogCompactor]:
    spy = Spy(setup)
    compactor = CatalogCompactor(setup.store(Role.COMPACTOR, spy.backend))
    api_process = setup.api_process(CompactorChannel(compactor, setup.runtime))
    return spy, api_process, compactor


async def test_files_and_record_are_there_before_the_manifest_that_names_them() -> None:
    setup = await started()
    spy, api_process, compactor = spied(setup)
    await api_process.do(new_table("a", "id bigint"))
    await compactor.merge()
    await compactor.mark_orphans("0" * 26)
    manifests = await setup.manifests()
    for number, manifest in enumerate(manifests[2:], start=2):
        key = f"manifests/{DOMAIN}/{number:020d}.json"
        done = spy.ended[: spy.ended.index(key)]
        assert spy.ended.index(key) == spy.begun.index(key), "nothing else is under way"
        commit = await read_commit(setup.store(Role.READER), manifest.commit)
        assert {manifest.commit.path, *(ref.path for ref in commit.added)} <= set(done)
    assert len(spy.ended) == len(set(spy.ended)), "nothing is made twice"
    await setup.close()
    await compactor.close()


async def test_commits_are_a_chain_by_the_hashes_of_their_bytes() -> None:
    setup = await started()
    await setup.table("a")
    await setup.compactor.merge()
    manifests = await setup.manifests()
    store = setup.store(Role.READER)
    commits = [await read_commit(store, manifest.commit) for manifest in manifests]
    assert [commit.number for commit in commits] == [0, 1, 2, 3]
    assert [commit.parent for commit in commits] == [None, *(m.commit for m in manifests[:-1])]
    entries = await manifests_of(store, DOMAIN).history(0, 3)
    assert len({entry.record.create_id for entry in entries}) == 4
    await setup.close()


async def creates_of_a_commit() -> int:
    setup = await started()
    spy, api_process, compactor = spied(setup)
    await api_process.do(new_table("a", "id bigint"))
    await setup.close()
    await compactor.close()
    return len(spy.begun)


async def test_a_crash_between_any_two_creates_of_a_commit_leaves_a_whole_catalog() -> None:
    count = await creates_of_a_commit()
    assert count == 3, "the combined file, the record, the manifest"
    for stop_at in range(count + 1):
        setup = await started()
        await setup.table("there", "id bigint")
        before = await all_rows(setup.store(Role.READER), await setup.cold().head())
        spy, api_process, compactor = spied(setup)
        spy.stop_at = stop_at
        setup.api.lease.lost()
        done = stop_at >= count
        try:
            await api_process.do(new_table("a", "id bigint"))
        except (Unknown, Unavailable):
            assert not done
        snapshot = await setup.cold().head()
        rows = await all_rows(setup.store(Role.READER), snapshot)
        assert await names_in(snapshot) == (["a", "there"] if done else ["there"])
        assert (rows == before) is not done
        # The next one repairs what was left: nothing of it is in its way.
        api_process.lease.lost()
        await setup.do(UpdateTable(target=t("there"), name="b"), new_table("c"))
        assert await names_in(await setup.cold().head()) == [*(["a"] if done else []), "b", "c"]
        await setup.close()
        await compactor.close()


async def test_a_crash_between_any_two_creates_of_a_merge_leaves_a_whole_catalog() -> None:
    for stop_at in range(30):
        setup = await started()
        await setup.table("a", "id bigint")
        await setup.do(DropTable(target=t("a")), new_table("b", "id bigint"))
        before = await all_rows(setup.store(Role.READER), await setup.cold().head())
        spy, _, compactor = spied(setup)
        spy.stop_at = stop_at
        merged = None
        try:
            merged = await compactor.merge()
        except ArcoError:
            assert len(spy.begun) == stop_at
        snapshot = await setup.cold().head()
        assert await all_rows(setup.store(Role.READER), snapshot) == before
        assert await setup.compactor.merge() is None or merged is None
        assert await names_in(await setup.cold().head()) == ["b"]
        await setup.close()
        await compactor.close()
        if merged is not None:
            assert stop_at >= 8
            return
    pytest.fail("a merge makes fewer objects than that")


@pytest.mark.parametrize(
    ("role", "key"),
    [
        (Role.API, "snapshots/catalog/all/tables/x.parquet"),
        (Role.API, "manifests/catalog/00000000000000000000.json"),
        (Role.API, "commits/catalog/x.json"),
        (Role.COMPACTOR, "ledger/catalog/x/000000000000.jsonl"),
        (Role.COMPACTOR, "locks/catalog/00000000000000000000.json"),
        (Role.COMPACTOR, "_catalog/idempotency/00/x/0000.json"),
        (Role.READER, "snapshots/catalog/all/tables/x.parquet"),
    ],
)
async def test_each_role_writes_only_what_is_its_own(role: Role, key: str) -> None:
    setup = open_setup()
    with pytest.raises(Denied):
        await setup.store(role).create(key, b"x")
    assert await setup.keys() == []


async def test_a_compactor_with_the_rights_of_the_api_publishes_nothing() -> None:
    setup = await started()
    api_process = setup.api_process(
        CompactorChannel(CatalogCompactor(setup.store(Role.API)), setup.runtime)
    )
    setup.api.lease.lost()
    with pytest.raises((Unknown, Unavailable)):
        await api_process.do(new_table("a"))
    assert (await setup.cold().head()).number == 1
    await setup.close()


async def test_two_compactors_lose_nothing_of_each_other() -> None:
    setup = await started()
    _, api_process, compactor = spied(setup)
    await asyncio.gather(
        *(setup.api.do(new_table(f"a{n}")) for n in range(3)),
        *(api_process.do(new_table(f"b{n}")) for n in range(3)),
        compactor.merge(),
        setup.compactor.merge(),
    )
    assert await names_in(await setup.cold().head()) == ["a0", "a1", "a2", "b0", "b1", "b2"]
    await setup.close()
    await compactor.close()
