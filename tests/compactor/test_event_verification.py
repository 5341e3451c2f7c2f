"""Verification of an event domain: sound state passes, and damage is named (figure 10)."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from arco.catalog.manifest import Commit, CommitKind, Counts, FileRef, Manifest, Ref
from arco.compactor.manifest_checks import check_advance, fault_in_position
from arco.compactor.rebuild import rebuild
from arco.compactor.verification import verify
from arco.compactor.verification_report import Discrepancy, ProblemKind, VerificationReport
from arco.core.scope import Scope
from arco.ledger.stream import Watermark
from arco.storage.roles import Role
from tests.compactor.compaction_setup import DOMAIN, CompactionSetup, open_setup
from tests.compactor.dict_backend import DictBackend
from tests.compactor.in_process_engine import InProcessEngine
from tests.compactor.test_tamper import Tampering, put, tamperings
from tests.figures import Figure

SCOPE = Scope()
KINDS = {
    "manifest": rf"manifests/{DOMAIN}/[0-9]+\.json",
    "commit": rf"commits/{DOMAIN}/.+",
    "index": rf"state/{DOMAIN}/index/.+",
    "file": rf"(state|quarantine)/{DOMAIN}/all/.+",
}
A, B, C = (f"01ARZ3NDEKTSV4RRFFQ69G5FA{letter}" for letter in "VWX")


async def lived_in() -> tuple[CompactionSetup, dict[str, bytes]]:
    """A domain with folds, quarantine, a merge, a rebuild, and streams both open and closed."""
    objects, setup = DictBackend(), open_setup()
    setup.backend = objects
    compactor = setup.compactor(retention={"executions": timedelta(days=30)})
    writer = setup.writer()
    for number in range(18):
        await setup.report_started(writer, f"e{number}")
        if number % 6 == 0:
            await writer.append([setup.event("execution_started", {"nonsense": number})])
        await compactor.cycle(everything=True)
    assert await compactor.merge() is not None
    await writer.close()
    await setup.report_started(setup.writer(), "later")
    await compactor.cycle(everything=True)
    await compactor.close()
    await rebuild(setup.store(), DOMAIN, InProcessEngine(setup.store()))
    await setup.report_started(setup.writer(), "last")
    await compactor.cycle(everything=True)
    await compactor.close()
    return setup, objects.stored


async def check(
    setup: CompactionSetup, role: Role = Role.JANITOR, **more: set[FileRef]
) -> VerificationReport:
    return await verify(setup.store(role), DOMAIN, everything=True, sound=more.get("sound"))


def paths(stored: dict[str, bytes], pattern: str) -> list[str]:
    below = (key.removeprefix(SCOPE.prefix) for key in sorted(stored))
    return [path for path in below if re.fullmatch(pattern, path)]


async def test_what_the_compactor_publishes_is_found_right() -> None:
    setup, _ = await lived_in()
    report = await check(setup)
    assert report.ok, report.problem
    kinds = {each.kind for each in await setup.commits()}
    assert kinds == {CommitKind.FOLD, CommitKind.MERGE, CommitKind.REBUILD}
    assert report.checked.manifests == report.head + 1 > 20
    assert report.checked.rows > 40


async def test_a_reader_verifies_as_much_as_is_published() -> None:
    setup, stored = await lived_in()
    full_report, reader_report = await check(setup), await check(setup, Role.READER)
    assert reader_report.ok, reader_report.problem
    assert paths(stored, rf"quarantine/{DOMAIN}/.+")
    assert reader_report.checked.files == full_report.checked.files


async def test_every_change_of_one_published_object_of_tier_2_is_found_and_the_object_named(
    figure: Figure,
) -> None:
    setup, stored = await lived_in()
    sound: set[FileRef] = set()
    report = await check(setup, sound=sound)
    assert report.ok, report.problem
    alike = {kind: paths(stored, pattern) for kind, pattern in KINDS.items()}
    published = paths(stored, f"(manifests|commits|state|quarantine)/{DOMAIN}/.+")
    assert sum(map(len, alike.values())) == len(published) - 1  # and a hint
    count, missed = 0, list[str]()
    for objects in alike.values():
        for tampering in tamperings(stored, some_of(objects)):
            original_objects = {full(path): stored.get(full(path)) for path in tampering.changed}
            if all(original_objects[full(path)] == raw for path, raw in tampering.changed.items()):
                continue
            put(stored, {full(path): raw for path, raw in tampering.changed.items()})
            problem = (await check(setup, sound=sound)).problem
            put(stored, original_objects)
            count += 1
            if problem is None or problem.path not in tampering.changed:
                missed.append(f"{tampering.description} {list(tampering.changed)}: {problem}")
    assert not missed, "\n".join(missed[:20])
    assert (await check(setup, sound=sound)).ok
    figure(f"tamper: {count} of {count} changes of Tier 2 detected and named")


def some_of(objects: list[str]) -> list[str]:
    """From all over, ends included: each change costs a whole verification."""
    step = max(1, len(objects) // 6)
    return sorted({*objects[::step], objects[-1]})


def full(path: str) -> str:
    return SCOPE.prefix + path


async def test_a_seal_that_is_gone_or_replaced_is_missed() -> None:
    setup, stored = await lived_in()
    [seal] = [
        path
        for path in paths(stored, rf"ledger/{DOMAIN}/.+")
        if b'"seal":true' in stored[full(path)]
    ]
    changes: Iterator[Tampering] = iter(
        (
            Tampering("gone", {seal: None}),
            Tampering("no seal", {seal: stored[full(seal)].replace(b',"seal":true', b"")}),
            Tampering("garbage", {seal: b"{}"}),
        )
    )
    for change in changes:
        seal_bytes = stored[full(seal)]
        put(stored, {full(path): raw for path, raw in change.changed.items()})
        problem = (await check(setup)).problem
        stored[full(seal)] = seal_bytes
        assert problem is not None, change.description
        assert (problem.kind, problem.path) == (ProblemKind.EVENT, seal)


async def test_segments_that_were_folded_are_counted_and_must_be_there() -> None:
    setup, stored = await lived_in()
    report = await check(setup)
    assert report.checked.events == 21  # all but those of the oldest manifest
    segments = [
        path
        for path in paths(stored, rf"ledger/{DOMAIN}/.+")
        if b'"seal":true' not in stored[full(path)]
    ]
    missed = []
    for path in segments:
        raw = stored[full(path)]
        for other in (None, raw.replace(b'"payload":', b'"payload": ')):
            put(stored, {full(path): other})
            problem = (await check(setup)).problem
            missed += [path] if problem is None or problem.kind is not ProblemKind.EVENT else []
            stored[full(path)] = raw
    assert sorted(set(missed)) == segments[:2]  # of the first manifest, which may be collected
    assert (await verify(setup.store(Role.READER), DOMAIN, everything=True)).checked.events == 0


NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


def manifest(mark: Watermark, **retained: datetime) -> Manifest:
    ref = Ref(path="commits/executions/x.json", sha256="")
    return Manifest(
        domain=DOMAIN,
        commit=ref,
        commit_ulid=A,
        fencing_token=-1,
        rows_changed_at=0,
        watermark=mark,
        retained_from=retained,
    )


def commit(segments: int = 0, **streams: tuple[int, int]) -> Commit:
    return Commit(
        format=1,
        domain=DOMAIN,
        number=1,
        commit_ulid=A,
        parent=None,
        kind=CommitKind.FOLD,
        created_at=NOON,
        streams=streams,
        counts=Counts(segments=segments, events=segments),
    )


OLD = Watermark(2, {A: 3, B: -1})


def advance(record: Commit, new: Watermark, old: Watermark = OLD) -> Discrepancy | None:
    try:
        check_advance(record, manifest(new), manifest(old), 1, "manifests/executions/1.json")
    except Discrepancy as discrepancy:
        return discrepancy
    return None


@pytest.mark.parametrize(
    ("record", "new"),
    [
        (commit(), OLD),
        (commit(2, **{A: (4, 5)}), Watermark(2, {A: 5, B: -1})),
        (
            commit(1, **{A: (4, 4), B: (0, 0)}),
            Watermark(2, {A: 4}),
        ),  # B has a seal and nothing else
        (commit(0, **{A: (4, 4)}), Watermark(2, {B: -1})),
        (commit(), Watermark(3, {A: 3, B: -1, C: -1})),
        (commit(2, **{C: (0, 2)}), Watermark(3, {A: 3, B: -1})),  # opened and closed
    ],
)
def test_a_watermark_that_advances_by_what_was_folded_is_right(
    record: Commit, new: Watermark
) -> None:
    assert advance(record, new) is None


@pytest.mark.parametrize(
    ("record", "new", "kind"),
    [
        (commit(), Watermark(1, {A: 3}), ProblemKind.MANIFEST),  # the frontier goes back
        (commit(), Watermark(2, {A: 2, B: -1}), ProblemKind.MANIFEST),  # a stream goes back
        (commit(), Watermark(2, {A: 3}), ProblemKind.COMMIT),  # B has left without its seal
        (commit(), Watermark(2, {A: 4, B: -1}), ProblemKind.COMMIT),  # no commit names 4
        (commit(1, **{A: (4, 4)}), Watermark(2, {A: 5, B: -1}), ProblemKind.COMMIT),
        (
            commit(1, **{A: (5, 5)}),
            Watermark(2, {A: 5, B: -1}),
            ProblemKind.COMMIT,
        ),  # 4 is left out
        (commit(3, **{A: (3, 5)}), Watermark(2, {A: 5, B: -1}), ProblemKind.COMMIT),  # 3 twice
        (commit(0, **{A: (4, 3)}), Watermark(2, {A: 3, B: -1}), ProblemKind.COMMIT),
        (commit(), Watermark(3, OLD.open), ProblemKind.COMMIT),  # whose slot was it?
        (commit(), Watermark(2, {**OLD.open, C: -1}), ProblemKind.COMMIT),  # without a slot
        (commit(3, **{A: (4, 5)}), Watermark(2, {A: 5, B: -1}), ProblemKind.COMMIT),  # miscounted
    ],
)
def test_a_watermark_that_goes_back_or_jumps_is_wrong(
    record: Commit, new: Watermark, kind: ProblemKind
) -> None:
    discrepancy = advance(record, new)
    assert discrepancy is not None
    assert discrepancy.problem.kind is kind


@pytest.mark.parametrize("kind", [CommitKind.MERGE, CommitKind.MARK, CommitKind.REBUILD])
def test_only_a_fold_moves_the_watermark(kind: CommitKind) -> None:
    still = msgspec.structs.replace(commit(), kind=kind)
    assert advance(still, OLD) is None
    assert advance(still, Watermark(3, {**OLD.open, C: -1})) is not None


def test_more_events_that_were_not_folded_than_there_are_is_wrong() -> None:
    counted = Counts(segments=0, events=3, late=2, quarantined=2)
    assert advance(msgspec.structs.replace(commit(), counts=counted), OLD) is not None


def retained(old: dict[str, datetime], new: dict[str, datetime]) -> bool:
    try:
        check_advance(commit(), manifest(OLD, **new), manifest(OLD, **old), 1, "")
    except Discrepancy:
        return False
    return True


def test_the_bounds_of_retention_never_go_back() -> None:
    before, after = NOON - timedelta(hours=1), NOON + timedelta(hours=1)
    assert retained({}, {"tasks": NOON})
    assert retained({"tasks": NOON}, {"tasks": after})
    assert not retained({"tasks": NOON}, {"tasks": before})
    assert not retained({"tasks": NOON}, {})


@pytest.mark.parametrize(
    "odd",
    [
        manifest(Watermark(0, {A: 0})),
        manifest(Watermark(1, {A: -2})),
        manifest(Watermark(-1, {})),
        manifest(Watermark(), unheard_of=NOON),
    ],
)
def test_a_position_that_no_ledger_can_have_is_wrong(odd: Manifest) -> None:
    assert fault_in_position(manifest(Watermark(2, {A: 0}), tasks=NOON)) is None
    assert fault_in_position(odd) is not None
