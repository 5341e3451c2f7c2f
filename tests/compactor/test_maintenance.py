"""Collection, verification, inspection and rebuild agree on what the compactor publishes (P20)."""

from datetime import timedelta

from arco.catalog.manifest import Manifest
from arco.compactor.catalog_compactor import CatalogCompactor
from arco.compactor.garbage_collection import GcReport, collect_garbage
from arco.compactor.inspection import inspect_domain
from arco.compactor.publisher import Publisher, manifest_at
from arco.compactor.rebuild import rebuild
from arco.compactor.verification import verify
from arco.core.clock import utc
from arco.storage.roles import Role
from tests.compactor.compaction_setup import DOMAIN, Rows, open_setup, state_of
from tests.compactor.dict_backend import DictBackend
from tests.compactor.in_process_engine import InProcessEngine

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
RETENTION_MS = 2 * DAY_MS
KEEP = {"executions": timedelta(days=4)}


class Site:
    """A setup on a store whose clock follows the local one."""

    def __init__(self) -> None:
        self.objects, self.setup = DictBackend(), open_setup()
        self.setup.backend = self.objects
        self.compactor = self.setup.compactor(retention=KEEP)
        self.pass_ms(0)

    def pass_ms(self, ms: int) -> None:
        self.setup.clock.pass_ms(ms)
        self.objects.now_ms = self.setup.clock.now_ms()

    async def live(self, days: int) -> None:
        """Each day a writer, two executions in two cycles, and merges as they are due."""
        for day in range(days):
            writer = self.setup.writer()
            for part in range(2):
                await self.setup.report_started(writer, f"d{day:02d}-{part}")
                await writer.append([self.setup.event("nonsense", {})])
                await self.compactor.cycle(everything=True)
                await self.compactor.merge()
                self.pass_ms(DAY_MS // 2)
            await writer.close()
        await self.compactor.cycle(everything=True)
        await self.compactor.close()

    async def collect(self) -> GcReport:
        return await collect_garbage(
            self.setup.store(Role.JANITOR),
            CatalogCompactor(self.setup.store()),
            domain=DOMAIN,
            retention_ms=RETENTION_MS,
        )

    async def assert_well(self) -> None:
        report = await verify(self.setup.store(Role.JANITOR), DOMAIN, everything=True)
        assert report.ok, report.problem
        inspection = await inspect_domain(self.setup.store(Role.JANITOR), DOMAIN)
        assert inspection.ok, inspection.troubles

    async def head(self) -> Manifest:
        head = manifest_at(await Publisher(self.setup.store(), DOMAIN).chain.head())
        assert head is not None
        return head

    async def rows(self) -> Rows:
        state = await state_of(self.setup.store(), await self.head())
        return {name: sorted(rows.to_pylist(), key=str) for name, rows in state.items()}


async def test_a_rebuild_after_a_collection_gives_the_same_rows() -> None:
    site = Site()
    await site.live(12)
    await site.assert_well()
    before = await site.rows()
    report = await site.collect()
    assert report.segments.objects > 10
    assert report.manifests.objects > 10
    assert report.files.objects > 10
    await site.assert_well()
    assert await site.rows() == before
    store = site.setup.store()
    rebuilt = await rebuild(store, DOMAIN, InProcessEngine(store))
    assert rebuilt.start == report.floor  # the oldest kept: all that was folded since is there
    assert rebuilt.counts.segments > 0
    assert await site.rows() == before
    await site.assert_well()


async def test_rows_that_are_not_retained_stay_away_whatever_is_collected_or_rebuilt() -> None:
    site = Site()
    await site.live(12)
    bound = (await site.head()).retained_from["executions"]
    execution_ids = [row["execution_id"] for row in (await site.rows())["executions"]]
    assert 0 < len(execution_ids) < len(site.setup.reported)
    assert bound <= utc(site.setup.clock.now_ms()) - KEEP["executions"]
    assert len((await site.rows())["quarantine"]) == 24  # for which nothing was configured
    for _ in range(2):
        await site.collect()
        store = site.setup.store()
        await rebuild(store, DOMAIN, InProcessEngine(store))
        assert [row["execution_id"] for row in (await site.rows())["executions"]] == execution_ids
        assert (await site.head()).retained_from["executions"] == bound
        await site.assert_well()
        site.pass_ms(DAY_MS // 4)


async def test_nothing_is_left_to_collect_but_what_is_young() -> None:
    site = Site()
    await site.live(6)
    await site.collect()
    site.pass_ms(10 * DAY_MS)
    await site.compactor.cycle(everything=True)
    report = await site.collect()
    assert report.segments.objects > 0
    site.pass_ms(3 * DAY_MS)
    report = await site.collect()
    remaining_keys = [key for key in site.objects.stored if f"/ledger/{DOMAIN}/" in key]
    seals = [key for key in remaining_keys if b'"seal":true' in site.objects.stored[key]]
    assert remaining_keys == seals  # all else is folded, and old
    await site.assert_well()
