"""The life cycle of a domain: lines are appended by writers that come and go, and compacted now and then.

Before each compaction a fresh read tells what it will publish. Sometimes tails are merged, by one of two
compactors that know little of each other, and in the end everything is built anew.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random

from arco.catalog.manifest import Manifest
from arco.catalog.reader import SnapshotReader
from arco.catalog.state_file import read_rows
from arco.compactor.domain_compactor import DomainCompactor
from arco.compactor.engine import SegmentRef
from arco.compactor.rebuild import rebuild
from arco.compactor.tail_merge import TailPolicy
from arco.fold.fold import retain
from arco.fold.tier2 import TIER2
from arco.ledger.stream import register_stream, slot_chain
from arco.ledger.writer import LedgerWriter
from arco.query.ledger_tail import LedgerTailReader
from arco.query.limits import QueryLimits
from arco.query.state_files import FileRows, merge
from arco.query.system_tables import DomainTable
from arco.storage.roles import Role
from tests.compactor.compaction_setup import state_of
from tests.differential.comparison import Tables, differences, folded, in_order, placeless, read
from tests.differential.environment import Site, cut, mixed
from tests.differential.history import History
from tests.differential.vocabulary import RECEIVED_BY
from tests.query.workers import tail_rows

_LIFE_MS = 24 * 3_600_000


@dataclass(frozen=True)
class Pace:
    """How much is made of a history."""

    pause: float = 0.4  # how likely it is that a segment is published before the next one comes
    most_segments: tuple[int, ...] = (1, 3, 8_192)  # in one job, any of these
    rebuilds: bool = True


class DomainLifecycle:
    """One domain of a site."""

    def __init__(
        self,
        rng: Random,
        site: Site,
        domain: str,
        retention: Mapping[str, timedelta],
        pace: Pace,
    ) -> None:
        self._pace = pace
        self._rng = rng
        self._site = site
        self._domain = domain
        self._store = site.store(Role.COMPACTOR)
        self._engine = site.engine(self._store)
        self._writers: list[LedgerWriter] = []
        self._compactors = [self._compactor(retention) for _ in range(2)]
        api = site.store(Role.API)
        self._tail = LedgerTailReader(api, domain, QueryLimits())
        self._slots = slot_chain(api, domain)
        self._reader = SnapshotReader(api, domain)
        self.segments: dict[SegmentRef, list[bytes]] = {}
        self.tally: Counter[str] = Counter()

    def _compactor(self, retention: Mapping[str, timedelta]) -> DomainCompactor:
        rng = self._rng
        return DomainCompactor(
            self._store,
            self._domain,
            self._engine,
            retention=retention,
            most_segments=rng.choice(self._pace.most_segments),
            policy=TailPolicy(longest=rng.randint(2, 4), many_rows=rng.choice((0, 0, 10, 1_000))),
        )

    async def begin(self) -> None:
        """Publish once without events, so that the bounds hold from the first of them on."""
        await register_stream(self._slots, _LIFE_MS)
        await self.compact()

    async def append(self, lines: list[bytes]) -> None:
        rng = self._rng
        if not self._writers or (len(self._writers) < 3 and rng.random() < 0.3):
            self._writers.append(LedgerWriter(self._site.store(Role.API), self._domain))
        writer = rng.choice(self._writers)
        receipt = await writer.append_lines(lines)
        self.segments[SegmentRef(receipt.stream, receipt.seq)] = lines
        if rng.random() < 0.2:
            self._writers.remove(writer)
            await writer.close()

    async def compact(self) -> None:
        compactor = self._rng.choice(self._compactors)
        while (cycle := await compactor.cycle(everything=True)) is not None:
            self.tally["cycles"] += 1
            self.tally["late events"] += cycle.counts.late
        if self._rng.random() < 0.7 and await compactor.merge() is not None:
            self.tally["merges"] += 1

    async def rebuild(self) -> None:
        most = self._rng.choice(self._pace.most_segments)
        await rebuild(self._store, self._domain, self._engine, most_segments=most)
        self.tally["rebuilds"] += 1

    async def bounds(self) -> dict[str, datetime]:
        """The retention bounds of the tables, as last published."""
        return (await self._manifest()).retained_from

    async def rows(self, *, hidden: bool = True) -> Tables:
        """What is published; with `hidden` also rows that are no longer retained."""
        return await state_of(self._store, await self._manifest(), hidden=hidden)

    async def fresh(self) -> Tables:
        """What a fresh read sees, by the parts of which a query is made."""
        self.tally["fresh reads"] += 1
        snapshot, manifest = await self._reader.head(), await self._manifest()
        bounds = manifest.retained_from
        ledger_tail = await self._tail.since(manifest.watermark, bounds)
        read = {}
        for name, table in TIER2[self._domain].items():
            tail = {ref.path for ref in manifest.tail.get(name, ())}
            pieces = [
                FileRows(
                    await read_rows(self._store, table, ref),
                    tail=ref.path in tail,
                    buckets=frozenset(ref.buckets),
                )
                for ref in await snapshot.files_of(table)
            ]
            ledger_rows = tail_rows(ledger_tail, DomainTable(self._domain, table))
            if ledger_rows.num_rows:
                buckets = frozenset(table.buckets_of(ledger_rows))
                pieces.append(FileRows(ledger_rows, tail=True, buckets=buckets))
            rows = retain(table, merge(table, pieces), bounds.get(name))
            if rows.num_rows:
                read[name] = in_order(table, rows)
        return read

    async def _manifest(self) -> Manifest:
        manifest = (await self._reader.head()).manifest
        assert manifest is not None
        return manifest


_HOUR_MS = 3_600_000
_PACE = Pace()


async def compacted(
    rng: Random,
    site: Site,
    history: History,
    wanted: Tables,
    tally: Counter[str],
    pace: Pace = _PACE,
) -> list[str]:
    """What is wrong in a life cycle in which the bounds stay as they are, so that delay changes nothing."""
    retention = {name: RECEIVED_BY - bound for name, bound in history.bounds.items()}
    lifecycle = DomainLifecycle(rng, site, history.domain, retention, pace)
    await lifecycle.begin()
    wrong: list[str] = []
    for lines in cut(rng, mixed(rng, history.lines)):
        await lifecycle.append(lines)
        if rng.random() < pace.pause:
            wrong += await _publish(lifecycle)
    wrong += await _publish(lifecycle)
    published_rows = await lifecycle.rows()
    own = folded(history.domain, read(history.domain, lifecycle.segments, history.bounds).rows)
    wrong += differences("published", own, published_rows)
    wrong += differences("published, another layout", placeless(wanted), placeless(published_rows))
    if pace.rebuilds:
        wrong += await _rebuilt(lifecycle)
    tally += lifecycle.tally
    return wrong


async def aged(
    rng: Random, site: Site, history: History, tally: Counter[str], pace: Pace = _PACE
) -> list[str]:
    """What is wrong in a life cycle in which time passes and rows leave.

    What is late then depends on when a line comes. But a fresh read still is what is published next, unless
    the bounds rise with it, and a rebuild still gives what was published.
    """
    kept = timedelta(hours=rng.randint(2, 8))
    lifecycle = DomainLifecycle(
        rng, site, history.domain, dict.fromkeys(history.bounds, kept), pace
    )
    await lifecycle.begin()
    wrong: list[str] = []
    for lines in cut(rng, mixed(rng, history.lines)):
        await lifecycle.append(lines)
        if rng.random() < pace.pause:
            wrong += await _publish(lifecycle)
            site.clock.pass_ms(rng.random() * _HOUR_MS)
    wrong += await _publish(lifecycle)
    if pace.rebuilds:
        wrong += await _rebuilt(lifecycle)
    tally += lifecycle.tally
    return wrong


async def _publish(lifecycle: DomainLifecycle) -> list[str]:
    fresh, bounds = await lifecycle.fresh(), await lifecycle.bounds()
    await lifecycle.compact()
    if await lifecycle.bounds() != bounds:
        return []
    return differences("fresh read", await lifecycle.rows(hidden=False), fresh)


async def _rebuilt(lifecycle: DomainLifecycle) -> list[str]:
    before, visible = await lifecycle.rows(), await lifecycle.rows(hidden=False)
    await lifecycle.rebuild()
    return [
        *differences("rebuild", before, await lifecycle.rows()),
        *differences("fresh read after a rebuild", visible, await lifecycle.fresh()),
    ]
