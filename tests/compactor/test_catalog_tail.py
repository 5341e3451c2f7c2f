"""The tail of the catalog becomes shorter beside commits; no row changes, nor the order of the files."""

from dataclasses import dataclass
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arco.catalog.ddl import DropTable, UpdateTable
from arco.catalog.manifest import Base, CommitKind, FileRef, Manifest, Ref, read_commit
from arco.compactor import catalog_tail
from arco.compactor.catalog_tail import MAX_TAIL, is_long, newest_run, shorten_tail
from arco.compactor.publisher import Publisher
from arco.core.ids import new_ulid
from arco.fold.tier1 import DOMAIN
from arco.storage.roles import Role
from tests.catalog.catalog_setup import CatalogSetup, all_rows, names_in, started, t
from tests.compactor.small_catalog import check
from tests.compactor.test_catalog_merge import rebuilt, rows_of
from tests.storage.interposed import Interposed

HOUR = timedelta(hours=1)


def publisher_of(setup: CatalogSetup) -> Publisher:
    return Publisher(setup.store(Role.COMPACTOR), DOMAIN)


async def with_tables(count: int) -> CatalogSetup:
    setup = await started()
    for n in range(count):
        await setup.table(f"t{n:02d}", "x int")
    return setup


async def test_a_long_tail_becomes_shorter_beside_the_commits() -> None:
    setup = await with_tables(3 * MAX_TAIL)
    await setup.compactor.close()
    head = (await setup.manifests())[-1]
    assert head.base == Base()
    assert not is_long(head)
    assert len(await names_in(await setup.cold().head())) == 3 * MAX_TAIL
    assert await rows_of(setup) == await rebuilt(setup)
    assert setup.compactor.merge_problem is None
    assert (await check(setup)).problem is None
    await setup.close()


async def test_a_large_tail_goes_into_the_base(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog_tail, "BASE_ROWS", 40)
    setup = await with_tables(12)
    await setup.compactor.close()
    head = (await setup.manifests())[-1]
    assert head.base.index is not None
    assert sum(ref.rows for files in head.tail.values() for ref in files) <= 40
    assert len(await names_in(await setup.cold().head())) == 12
    await setup.close()


async def test_a_shortened_tail_names_one_file_with_the_rows_of_all() -> None:
    setup = await with_tables(5)
    await setup.do(DropTable(target=t("t00")), UpdateTable(target=t("t01"), name="renamed"))
    before = await setup.cold().head()
    shortened = await shorten_tail(publisher_of(setup))
    assert shortened is not None
    after = await setup.cold().head()
    assert after.manifest is not None
    assert before.manifest is not None
    assert len({ref.path for files in after.manifest.tail.values() for ref in files}) == 1
    assert after.manifest.rows_changed_at == before.number
    store = setup.store(Role.READER)
    assert await all_rows(store, after) == await all_rows(store, before)
    commit = await read_commit(store, after.manifest.commit)
    assert commit.kind is CommitKind.MERGE
    old = {ref.path for files in before.manifest.tail.values() for ref in files}
    assert set(commit.removed) == old
    assert (await check(setup)).problem is None
    await setup.close()


async def test_verification_notices_a_file_that_is_not_of_neighbouring_commits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    setup = await with_tables(5)
    manifest = (await setup.manifests())[-1]
    first, _, third, *_ = (ref.path for ref in manifest.tail["tables"])

    def run_with_a_gap(of: Manifest) -> catalog_tail.Run:
        run = {
            name: tuple(ref for ref in refs if ref.path in (first, third))
            for name, refs in of.tail.items()
        }
        return {name: refs for name, refs in run.items() if refs}

    monkeypatch.setattr(catalog_tail, "newest_run", run_with_a_gap)
    assert await shorten_tail(publisher_of(setup)) is not None
    problem = (await check(setup)).problem
    assert problem is not None
    assert "an older file has newer ones" in problem.explanation
    await setup.close()


async def test_a_tail_of_a_few_files_stays() -> None:
    setup = await started()
    await setup.table("a")
    number = (await setup.cold().head()).number
    assert await shorten_tail(publisher_of(setup)) is None
    assert (await setup.cold().head()).number == number
    await setup.close()


@dataclass
class Meanwhile:
    """Does something before the next manifest is created."""

    setup: CatalogSetup
    done: bool = False

    async def before(self, verb: str, key: str) -> None:
        if verb == "create" and "/manifests/" in key and not self.done:
            self.done = True
            await self.step()

    async def step(self) -> None:
        raise NotImplementedError

    def publisher(self) -> Publisher:
        backend = Interposed(self.setup.backend, before=self.before)
        return Publisher(self.setup.store(Role.COMPACTOR, backend), DOMAIN)


class Commits(Meanwhile):
    async def step(self) -> None:
        await self.setup.do(UpdateTable(target=t("t01"), name="renamed"))
        await self.setup.table("last")


async def test_it_is_published_below_the_commits_that_were_made_meanwhile() -> None:
    setup = await with_tables(5)
    head = await shorten_tail(Commits(setup).publisher())
    assert head is not None
    manifest = (await setup.manifests())[head.number]
    newest = [ref.newest for ref in manifest.tail["tables"]]
    assert newest == sorted(newest)
    assert len(newest) == 3, "the new file, and the two commits after it"
    names = await names_in(await setup.cold().head())
    assert sorted(names) == ["last", "renamed", "t00", "t02", "t03", "t04"]
    assert await rows_of(setup) == await rebuilt(setup)
    assert (await check(setup)).problem is None
    await setup.close()


class Merges(Meanwhile):
    async def step(self) -> None:
        assert await self.setup.compactor.merge() is not None


async def test_it_is_not_published_if_a_merge_was_first() -> None:
    setup = await with_tables(5)
    assert await shorten_tail(Merges(setup).publisher()) is None
    assert await rows_of(setup) == await rebuilt(setup)
    await setup.close()


class Marks(Meanwhile):
    async def step(self) -> None:
        self.setup.clock.set_forward(HOUR)
        mark = new_ulid(self.setup.runtime)
        self.setup.clock.set_forward(HOUR)
        await self.setup.compactor.mark_orphans(mark)


async def test_it_is_not_published_if_its_file_may_have_been_collected() -> None:
    setup = await with_tables(5)
    assert await shorten_tail(Marks(setup).publisher()) is None
    assert len(await names_in(await setup.cold().head())) == 5
    await setup.close()


def manifest_of(sizes: list[int]) -> Manifest:
    """A manifest whose tail has files with these numbers of rows, oldest first."""
    files = tuple(
        FileRef(path=f"{n}", rows=rows, bytes=1, sha256="", newest=n)
        for n, rows in enumerate(sizes)
    )
    return Manifest(
        domain=DOMAIN,
        commit=Ref(path="", sha256=""),
        commit_ulid="",
        fencing_token=0,
        rows_changed_at=0,
        tail={"tables": files},
    )


def run_sizes(sizes: list[int]) -> int:
    """How many of the newest files go into one."""
    run = newest_run(manifest_of(sizes)).get("tables", ())
    assert [ref.path for ref in run] == [str(n) for n in range(len(sizes))][len(sizes) - len(run) :]
    return len(run)


@given(st.lists(st.integers(1, 100), max_size=40))
def test_the_run_is_of_the_newest_files_and_has_at_least_four(sizes: list[int]) -> None:
    count = run_sizes(sizes)
    assert count == 0 or count >= 4
    assert count or len(sizes) < 4


def test_the_tail_of_many_commits_stays_short_and_rows_are_rewritten_seldom() -> None:
    sizes: list[int] = []
    rewritten = 0
    for _ in range(2_000):
        sizes.append(10)
        if is_long(manifest_of(sizes)):
            count = run_sizes(sizes)
            rewritten += sum(sizes[-count:])
            sizes = [*sizes[:-count], sum(sizes[-count:])]
        assert len(sizes) <= MAX_TAIL
    assert sum(sizes) == 20_000
    assert rewritten <= 8 * 20_000
