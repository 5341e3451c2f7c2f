"""The tail of event domains stays short, bytes written stay in proportion, and rows stay the same."""

import itertools
import random
from collections.abc import Callable
from datetime import timedelta

import pytest

from arco.catalog.manifest import (
    Base,
    BaseIndex,
    CommitKind,
    Counts,
    FileRef,
    Manifest,
    Ref,
    read_index,
)
from arco.compactor.base_files import BaseFiles
from arco.compactor.catalog_compactor import mark_orphans
from arco.compactor.domain_compactor import DomainCompactor
from arco.compactor.engine import MergePart
from arco.compactor.publisher import Publisher
from arco.compactor.tail_merge import TailPolicy
from arco.core.clock import utc
from arco.core.ids import new_ulid
from arco.fold.tier2 import EXECUTIONS, QUARANTINE, SCHEDULES, TIER2
from tests.compactor.compaction_setup import DOMAIN, CompactionSetup, Slow, open_setup
from tests.compactor.in_process_engine import InProcessEngine

DAY = timedelta(days=1)
TABLES = TIER2[DOMAIN]
POLICY = TailPolicy()
SOON = TailPolicy(longest=4, many_rows=10)  # for tests with real files
ALL = tuple(range(64))

_names = itertools.count()


def ref(rows: int, *, size: int | None = None, buckets: tuple[int, ...] = ALL) -> FileRef:
    return FileRef(
        path=f"state/{next(_names)}",
        rows=rows,
        bytes=rows * 100 if size is None else size,
        sha256="",
        buckets=buckets,
    )


def manifest(tail: dict[str, tuple[FileRef, ...]], base: Base | None = None) -> Manifest:
    return Manifest(
        domain=DOMAIN,
        commit=Ref(path="", sha256=""),
        commit_ulid="",
        fencing_token=-1,
        rows_changed_at=0,
        tail=tail,
        base=base or Base(),
    )


def base_of(rows: int, *, buckets: tuple[int, ...] = ALL) -> BaseFiles:
    files = {str(each): ref(rows // len(buckets), buckets=(each,)) for each in buckets}
    return BaseFiles(Base(), BaseIndex(tables={EXECUTIONS.name: files}))


def plan(
    files: list[FileRef], base: BaseFiles | None = None, *, is_behind: bool = False
) -> tuple[MergePart, ...]:
    parent = manifest({EXECUTIONS.name: tuple(files)})
    return POLICY.plan_merge(parent, base or BaseFiles(Base()), TABLES, is_behind=is_behind)


def test_a_short_and_small_tail_is_left_alone() -> None:
    files = [ref(10) for _ in range(POLICY.longest - 1)]
    assert plan(files) == ()
    assert not POLICY.is_due(manifest({EXECUTIONS.name: tuple(files)}))


def test_a_long_tail_of_few_rows_becomes_one_file_of_the_tail() -> None:
    files = [ref(10, buckets=(n,)) for n in range(POLICY.longest)]
    [part] = plan(files)
    assert not part.into_base
    assert set(part.tail) == set(files)
    assert part.buckets == tuple(range(POLICY.longest))
    assert part.base == {}


def test_a_tail_with_a_quarter_of_the_base_goes_into_it() -> None:
    files = [ref(100, buckets=(n, n + 1)) for n in range(POLICY.longest)]
    base = base_of(64 * 100)
    [part] = plan(files, base)
    assert part.into_base
    assert part.buckets == tuple(range(POLICY.longest + 1))
    assert part.base == {str(n): base.file(EXECUTIONS, n) for n in range(POLICY.longest + 1)}
    [shorter] = plan(files, base_of(64 * 101))
    assert not shorter.into_base


def test_a_few_large_files_go_into_the_base_without_waiting_for_more() -> None:
    assert plan([ref(50_000)]) == ()
    assert {part.into_base for part in plan([ref(50_001)])} == {True}
    assert plan([ref(60_000)], base_of(64 * 10_000)) == ()
    assert {part.into_base for part in plan([ref(60_000)], base_of(64 * 3_000))} == {True}


def test_while_there_is_a_backlog_only_a_very_long_tail_is_merged() -> None:
    assert plan([ref(60_000)] * (POLICY.longest_behind - 1), is_behind=True) == ()
    assert {
        each.into_base for each in plan([ref(60_000)] * POLICY.longest_behind, is_behind=True)
    } == {True}


def test_a_table_in_one_piece_is_merged_with_its_file() -> None:
    large_file = ref(40, buckets=(0,))
    files = tuple(ref(1, buckets=(0,)) for _ in range(POLICY.longest))
    base = Base(unbucketed={SCHEDULES.name: large_file})
    [part] = POLICY.plan_merge(manifest({SCHEDULES.name: files}, base), BaseFiles(base), TABLES)
    assert (part.table, part.buckets, part.base) == (SCHEDULES.name, (0,), {"0": large_file})


def test_tables_are_planned_each_for_itself() -> None:
    tail = {
        EXECUTIONS.name: tuple(ref(1) for _ in range(POLICY.longest)),
        QUARANTINE.name: (ref(60_000, buckets=(0,)),),
        SCHEDULES.name: (ref(1, buckets=(0,)),),
    }
    parts = POLICY.plan_merge(manifest(tail), BaseFiles(Base()), TABLES)
    assert [(part.table, part.into_base) for part in parts] == [
        (EXECUTIONS.name, False),
        (QUARANTINE.name, True),
    ]


def test_a_large_merge_has_several_parts_and_each_bucket_is_in_one_of_them() -> None:
    files = [ref(60_000, buckets=tuple(range(n, n + 16))) for n in (0, 16, 32, 48)]
    base = base_of(64 * 5_000)
    parts = plan(files, base)
    assert len(parts) == 4
    assert sorted(bucket for part in parts for bucket in part.buckets) == list(ALL)
    assert {path for part in parts for path in part.base} == {str(each) for each in ALL}
    assert [part.tail for part in parts] == [(each,) for each in files]


def test_a_large_file_is_not_rewritten_for_a_few_small_ones() -> None:
    large, small = ref(40_000), [ref(10) for _ in range(POLICY.longest - 1)]
    [part] = plan([large, *small])
    assert set(part.tail) == set(small)


def test_whatever_the_sizes_a_long_tail_gets_shorter() -> None:
    doubling = [ref(1, size=3**n) for n in range(POLICY.longest)]
    [part] = plan(doubling)
    assert list(part.tail) == doubling[:4]
    for seed in range(200):
        rng = random.Random(seed)
        files = [ref(1, size=int(10 ** rng.uniform(2, 7))) for _ in range(rng.randint(16, 40))]
        [part] = plan(files)
        assert len(part.tail) >= 4


@pytest.mark.parametrize(
    ("commits", "sizes"),
    [
        (3_000, lambda _: 100),
        (3_000, lambda rng: int(10 ** rng.uniform(0, 3))),
        (3_000, lambda rng: 20_000 if rng.random() < 0.01 else 10),
    ],
)
def test_bytes_are_written_in_proportion_and_the_tail_stays_short(
    commits: int, sizes: Callable[[random.Random], int]
) -> None:
    """A table to which rows are only added, as most are: the worst for a merge."""
    rng = random.Random(1)
    tail: list[FileRef] = []
    base = BaseFiles(Base())
    came = written = merges = 0
    for _ in range(commits):
        tail.append(ref(sizes(rng)))
        came += tail[-1].rows
        for part in plan(tail, base):
            merges += 1
            rows = sum(each.rows for each in part.tail)
            tail = [each for each in tail if each not in part.tail]
            if part.into_base:
                rows += sum(each.rows for each in part.base.values())
                base = base_of(rows)
            else:
                tail.append(ref(rows))
            written += rows
        assert len(tail) < POLICY.longest
    assert written < 12 * came
    assert merges < commits / 3


# With the real engine


async def grow(setup: CompactionSetup, cycles: int, *, start: int = 0) -> None:
    compactor, writer = setup.compactor(), setup.writer()
    for n in range(start, start + cycles):
        await setup.report_started(writer, f"e{n:04d}", f"shared{n % 5}")
        assert await compactor.cycle(everything=True) is not None


async def test_a_tail_that_is_made_shorter_has_the_same_rows() -> None:
    setup = open_setup()
    await grow(setup, POLICY.longest)
    before = await setup.rows(hidden=True)
    cycle = await setup.compactor().merge()
    assert cycle is not None
    assert (cycle.kind, cycle.files, cycle.counts) == (CommitKind.MERGE, 1, Counts())
    assert list(cycle.phases_ms) == ["merge", "publish"]
    head, commit = await setup.head(), (await setup.commits())[-1]
    assert len(head.tail["executions"]) == 1
    assert head.base == Base()
    assert head.rows_changed_at == POLICY.longest - 1
    assert len(commit.removed) == POLICY.longest
    assert [each.path for each in commit.added] == [head.tail["executions"][0].path]
    assert await setup.rows(hidden=True) == before
    assert await setup.compactor().merge() is None


async def test_a_tail_that_goes_into_the_base_has_the_same_rows() -> None:
    setup = open_setup()
    writer = setup.writer()
    compactor = setup.compactor(policy=SOON)
    for n in range(40):
        events = [setup.started(f"e{n}"), setup.completed(f"e{n - 3}", "FAILED")]
        events.append(setup.event("schedule_defined", {}))  # which is no such event: quarantined
        await writer.append(events)
        await compactor.cycle(everything=True)
        before = await setup.rows(hidden=True)
        if await compactor.merge() is not None:
            assert await setup.rows(hidden=True) == before
        assert max(map(len, (await setup.head()).tail.values()), default=0) < SOON.longest
    head, commits = await setup.head(), await setup.commits()
    assert head.base.index is not None
    assert set(head.base.unbucketed) == {"quarantine"}
    assert len((await setup.rows())["executions"]) == 43
    index = await read_index(setup.store(), head.base.index)
    for bucket, ref_ in index.tables["executions"].items():
        assert ref_.buckets == (int(bucket),)
    named_paths = {each.path for each in head.named_files()} | {head.base.index.path}
    named_paths |= {each.path for each in index.tables["executions"].values()}
    assert named_paths <= {each.path for commit in commits for each in commit.added}
    removed_paths = {path for commit in commits for path in commit.removed}
    assert not named_paths & removed_paths


async def test_a_large_base_is_not_rewritten_for_a_few_rows() -> None:
    setup = open_setup()
    writer = setup.writer()
    compactor = setup.compactor(policy=TailPolicy(longest=4, many_rows=300))
    await setup.report_started(writer, *(f"old{n}" for n in range(400)))
    await compactor.cycle()
    first = await compactor.merge()
    assert first is not None
    for n in range(30):
        await setup.report_started(writer, f"new{n}")
        await compactor.cycle(everything=True)
        later = await compactor.merge()
        assert later is None or later.files == 1
    assert len((await setup.rows())["executions"]) == 430


async def test_a_merge_is_published_over_cycles_that_came_meanwhile() -> None:
    setup = open_setup()
    await grow(setup, 4)
    slow = Slow(InProcessEngine(setup.store()))

    async def meanwhile() -> None:
        await grow(setup, 3, start=4)

    slow.meanwhile = meanwhile
    merged = await setup.compactor(slow, policy=SOON).merge()
    assert merged is not None
    assert merged.manifest == 7
    head = await setup.head()
    assert len(head.tail["executions"]) == 1 + 3
    assert await setup.executions() == sorted(set(setup.reported))


@pytest.mark.parametrize("many_rows", [0, 1_000])
async def test_of_two_merges_at_once_one_is_published(many_rows: int) -> None:
    setup = open_setup()
    await grow(setup, 4)
    policy = TailPolicy(longest=4, many_rows=many_rows)
    slow = Slow(InProcessEngine(setup.store()))
    done: list[object] = []

    async def meanwhile() -> None:
        done.append(await setup.compactor(policy=policy).merge())

    slow.meanwhile = meanwhile
    assert await setup.compactor(slow, policy=policy).merge() is None
    assert done[0] is not None
    assert await setup.executions() == sorted(set(setup.reported))


async def test_a_merge_whose_files_may_have_been_collected_is_not_published() -> None:
    setup = open_setup()
    await grow(setup, 4)
    slow = Slow(InProcessEngine(setup.store()))

    async def meanwhile() -> None:
        setup.clock.pass_ms(1)
        await mark_orphans(Publisher(setup.store(), DOMAIN), new_ulid(setup.runtime))

    slow.meanwhile = meanwhile
    compactor = setup.compactor(slow, policy=SOON)
    assert await compactor.merge() is None
    assert (await setup.commits())[-1].kind is CommitKind.MARK
    assert await compactor.merge() is not None
    assert await setup.executions() == sorted(set(setup.reported))


# Retention


async def aged(setup: CompactionSetup) -> DomainCompactor:
    """Old and young rows in the tail, and a bound between them."""
    writer = setup.writer()
    compactor = setup.compactor(policy=SOON, retention={"executions": 10 * DAY})
    now = utc(setup.clock.now_ms())
    for n in range(8):
        await setup.report_started(writer, f"old{n}", at=now - 9 * DAY)
    await compactor.cycle()
    setup.clock.pass_ms(2 * DAY / timedelta(milliseconds=1))
    for n in range(8):
        await setup.report_started(writer, f"young{n}")
    await compactor.cycle(everything=True)
    return compactor


async def test_rows_that_are_no_longer_retained_are_left_out_of_the_base() -> None:
    setup = open_setup()
    compactor = await aged(setup)
    assert len(await setup.executions()) == 8
    assert len((await setup.rows(hidden=True))["executions"]) == 16
    merged = await compactor.merge()
    assert merged is not None
    assert (await setup.head()).rows_changed_at == merged.manifest
    assert len((await setup.rows(hidden=True))["executions"]) == 8


async def test_a_merge_that_leaves_rows_out_is_not_published_over_rows_that_it_has_not_seen() -> (
    None
):
    setup = open_setup()
    await aged(setup)
    slow = Slow(InProcessEngine(setup.store()))
    compactor = setup.compactor(slow, policy=SOON)

    async def meanwhile() -> None:
        await grow(setup, 1)

    slow.meanwhile = meanwhile
    assert await compactor.merge() is None
    slow.meanwhile = meanwhile
    assert await compactor.merge() is not None, "then it leaves nothing out, and need not starve"
    assert len((await setup.rows(hidden=True))["executions"]) == 18


def test_no_merge_has_more_rows_than_a_task_can_hold() -> None:
    policy = TailPolicy(most_rows=1_000_000)
    table = EXECUTIONS.name

    def planned(files: list[FileRef], base: BaseFiles) -> tuple[MergePart, ...]:
        return policy.plan_merge(manifest({table: tuple(files)}), base, TABLES)

    large = [ref(500_000, buckets=(7,)) for _ in range(20)]
    assert planned(large, BaseFiles(Base())) == (), "one bucket of ten million rows is left alone"
    small = [ref(10, buckets=(7,)) for _ in range(16)]
    [part] = planned([*large, *small], BaseFiles(Base()))
    assert (set(part.tail), part.into_base) == (set(small), False)
    spread = [ref(500_000) for _ in range(20)]
    parts = planned(spread, BaseFiles(Base()))
    assert {part.into_base for part in parts} == {True}
    assert sorted(bucket for part in parts for bucket in part.buckets) == [*ALL]
    assert max(len(part.buckets) for part in parts) <= 6, "about a million rows a part"
