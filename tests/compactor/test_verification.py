"""Verification: what it counts, which problems it finds, and which object it names."""

from datetime import timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from arco.catalog.manifest import FileRef
from arco.compactor.garbage_collection import collect_garbage
from arco.compactor.state_file_checks import check_content
from arco.compactor.state_file_writer import encode_combined_file, encode_state_file
from arco.compactor.verification import verify
from arco.compactor.verification_report import ProblemKind
from arco.core import json
from arco.core.errors import Unavailable
from arco.fold.tier1 import DOMAIN, OBJECTS, TABLES
from arco.storage.chain_gc import DEFAULT_RETENTION_MS
from arco.storage.hint import Hint
from arco.storage.roles import Role
from tests.catalog.catalog_setup import after, open_setup, started
from tests.compactor.dict_backend import DictBackend
from tests.compactor.small_catalog import (
    HEAD,
    HEAD_NUMBER,
    anchor,
    check,
    full,
    manifest_path,
    paths,
    resealed,
    small_catalog,
)
from tests.storage.interposed import Interposed


async def test_a_sound_catalog_passes_and_everything_in_it_is_counted() -> None:
    setup, stored = await small_catalog()
    report = await check(setup)
    assert report.ok
    assert report.problem is None
    assert (report.floor, report.head) == (0, HEAD_NUMBER)
    assert report.head_sha256 == anchor(stored, HEAD_NUMBER)[1]
    assert report.checked.manifests == len(paths(stored, r"manifests/catalog/[0-9]+\.json"))
    assert report.checked.commits == len(paths(stored, "commits/.+"))
    assert report.checked.files == len(paths(stored, "snapshots/.+"))
    assert report.checked.events == len(paths(stored, "ledger/.+")) - 1  # less the seal
    assert report.checked.rows > 0
    assert report.checked.collected == 0


async def test_an_empty_workspace_is_sound() -> None:
    report = await check(open_setup(DictBackend()))
    assert report.ok
    assert report.head == -1
    assert report.checked.manifests == 0


async def test_only_the_current_files_are_read_unless_everything_is_asked_for() -> None:
    setup, stored = await small_catalog()
    [oldest, *_] = paths(stored, "snapshots/catalog/all/combined/[0-9A-Z]{26}.parquet")
    stored[full(oldest)] += b"!"
    current = await check(setup, everything=False)
    assert current.ok
    everything = await check(setup, everything=True)
    assert everything.problem is not None
    assert everything.problem.path == oldest
    assert current.checked.files < len(paths(stored, "snapshots/.+"))
    assert current.checked.manifests == HEAD_NUMBER + 1


async def test_a_reader_verifies_what_is_published_and_no_events() -> None:
    setup, _ = await small_catalog()
    report = await check(setup, role=Role.READER)
    assert report.ok
    assert report.checked.events == 0
    assert report.checked.commits == HEAD_NUMBER + 1


async def test_progress_reaches_what_there_was_to_do() -> None:
    setup, _ = await small_catalog()
    reported: list[tuple[int, int]] = []
    await verify(
        setup.store(Role.JANITOR),
        DOMAIN,
        everything=True,
        progress=lambda done, total: reported.append((done, total)),
    )
    assert reported[-1][0] == reported[-1][1] > HEAD_NUMBER
    assert [done for done, _ in reported] == sorted(done for done, _ in reported)


async def test_a_store_that_does_not_answer_is_no_verdict() -> None:
    setup, _ = await small_catalog()

    async def refuse(verb: str, key: str) -> None:
        if "/snapshots/" in key:
            raise Unavailable("503")

    store = setup.store(Role.JANITOR, Interposed(setup.backend, before=refuse))
    with pytest.raises(Unavailable):
        await verify(store, DOMAIN)


@pytest.mark.parametrize("role", [Role.JANITOR, Role.READER])
@pytest.mark.parametrize("number", [0, 1, 7, HEAD_NUMBER - 1])
@pytest.mark.parametrize("hinted", [True, False])
async def test_a_manifest_that_is_missing_in_the_middle_is_named(
    role: Role, number: int, hinted: bool
) -> None:
    setup, stored = await small_catalog()
    del stored[full(manifest_path(number))]
    if not hinted:
        del stored[full(HEAD)]
    problem = (await check(setup, role=role)).problem
    assert problem is not None
    assert (problem.kind, problem.path) == (ProblemKind.MANIFEST, manifest_path(number))
    assert "missing" in problem.explanation


@pytest.mark.parametrize("role", [Role.JANITOR, Role.READER])
async def test_a_head_that_is_missing_is_found_by_the_hint(role: Role) -> None:
    setup, stored = await small_catalog()
    del stored[full(manifest_path(HEAD_NUMBER))]
    problem = (await check(setup, role=role)).problem
    assert problem is not None
    assert problem.path == manifest_path(HEAD_NUMBER)


@pytest.mark.parametrize("hint", [b"", b"garbage", b'{"format":1,"number":2}', None])
async def test_a_hint_that_is_lost_or_garbage_is_no_problem(hint: bytes | None) -> None:
    setup, stored = await small_catalog()
    if hint is None:
        del stored[full(HEAD)]
    else:
        stored[full(HEAD)] = hint
    assert (await check(setup)).ok


async def test_a_floor_that_is_missing_is_found_by_the_hint() -> None:
    setup, stored = await small_catalog()
    stored[full(HEAD)] = json.encode(Hint(format=1, number=HEAD_NUMBER, floor_index=0, floor=3))
    problem = (await check(setup)).problem
    assert problem is not None
    assert (problem.kind, problem.path) == (
        ProblemKind.FLOOR,
        f"manifests/{DOMAIN}/floor/{0:020d}.json",
    )


async def test_a_collected_catalog_is_sound_and_its_floor_is_vouched_for() -> None:
    setup, stored = await small_catalog()
    assert isinstance(setup.backend, DictBackend)
    setup.backend.now_ms += 10 * DEFAULT_RETENTION_MS
    await collect_garbage(setup.store(Role.JANITOR), None)
    report = await check(setup)
    assert report.ok, report.problem
    assert (report.floor, report.head, report.checked.manifests) == (HEAD_NUMBER, HEAD_NUMBER, 1)
    assert not (await check(setup, expect=(5, "0" * 64))).ok
    [floor] = paths(stored, "manifests/catalog/floor/.+")
    raw = stored[full(floor)]
    for spoiled in (raw[:-1], raw + b"x", raw.replace(b'"floor":12', b'"floor":11')):
        stored[full(floor)] = spoiled
        problem = (await check(setup)).problem
        assert problem is not None
        assert (problem.kind, problem.path) == (ProblemKind.FLOOR, floor)
    del stored[full(floor)]
    assert not (await check(setup)).ok


async def test_an_anchor_that_fits_is_fine_whatever_its_case() -> None:
    setup, stored = await small_catalog()
    number, sha256 = anchor(stored, 5)
    assert (await check(setup, expect=(number, sha256.upper()))).ok


@pytest.mark.parametrize(("number", "says"), [(5, "was expected"), (HEAD_NUMBER + 1, "is missing")])
async def test_an_anchor_finds_a_chain_that_is_another(number: int, says: str) -> None:
    setup, _ = await small_catalog()
    problem = (await check(setup, expect=(number, "0" * 64))).problem
    assert problem is not None
    assert (problem.kind, problem.path) == (ProblemKind.ANCHOR, manifest_path(number))
    assert says in problem.explanation


async def test_only_an_anchor_finds_a_chain_that_was_cut_together_with_its_hint() -> None:
    setup, stored = await small_catalog()
    anchored = anchor(stored, HEAD_NUMBER)
    del stored[full(manifest_path(HEAD_NUMBER))]
    del stored[full(HEAD)]
    assert (await check(setup)).ok
    assert not (await check(setup, expect=anchored)).ok


async def test_a_manifest_with_a_checksum_of_its_own_is_blamed_by_its_child() -> None:
    setup, stored = await small_catalog()
    key = full(manifest_path(HEAD_NUMBER - 1))
    stored[key] = resealed(stored[key].replace(b'"fencing_token":', b'"fencing_token":1'))
    problem = (await check(setup)).problem
    assert problem is not None
    assert problem.path == manifest_path(HEAD_NUMBER - 1)
    assert str(HEAD_NUMBER) in problem.explanation


@pytest.mark.parametrize(
    ("old_bytes", "new_bytes", "explains"),
    [
        (b'"domain":"catalog"', b'"domain":"lineage"', "is of domain"),
        (b'"rows_changed_at":12', b'"rows_changed_at":13', "rows changed at"),
        (b'"rows_changed_at":12', b'"rows_changed_at":5', "newer than"),
        (b'"format":2,"domain"', b'"format":3,"domain"', "upgrade Arco"),
        (b'"tombstone":false', b'"tombstone":true', "tombstone"),
    ],
)
async def test_a_head_that_contradicts_itself_is_named(
    old_bytes: bytes, new_bytes: bytes, explains: str
) -> None:
    setup, stored = await small_catalog()
    key = full(manifest_path(HEAD_NUMBER))
    assert old_bytes in stored[key]
    stored[key] = resealed(stored[key].replace(old_bytes, new_bytes))
    problem = (await check(setup)).problem
    assert problem is not None
    assert problem.path == manifest_path(HEAD_NUMBER)
    assert explains in problem.explanation


async def test_an_event_with_other_rows_is_found_though_its_id_is_right() -> None:
    setup, stored = await small_catalog()
    [key] = [key for key, raw in stored.items() if b'"name":"d"' in raw and "/ledger/" in key]
    stored[key] = stored[key].replace(b'"data_type":"int"', b'"data_type":"xnt"')
    problem = (await check(setup)).problem
    assert problem is not None
    assert (problem.kind, full(problem.path)) == (ProblemKind.EVENT, key)
    assert "other bytes in line 1" in problem.explanation


async def test_a_segment_that_had_gone_before_its_commit_was_published_is_no_problem() -> None:
    """Its process slept between append and commit for longer than segments are sure to be kept."""
    objects = DictBackend()
    setup = await started(open_setup(objects))

    async def sleep() -> None:
        setup.clock.set_forward(timedelta(hours=3))

    setup.channel.next(after(sleep))
    await setup.table("late")
    await setup.table("punctual")
    await setup.close()
    *_, late_path, punctual_path, _seal = paths(objects.stored, "ledger/.+")
    del objects.stored[full(late_path)]
    report = await check(setup)
    assert report.ok, report.problem
    assert report.checked.collected == 1
    del objects.stored[full(punctual_path)]
    problem = (await check(setup)).problem
    assert problem is not None
    assert problem.path == punctual_path


def some_rows() -> pa.Table:
    rows = [
        {"table_id": f"t{n}", "schema_id": "s", "name": f"n{n}", "_commit": 7, "_position": n}
        for n in range(3)
    ]
    return pa.Table.from_pylist(rows, schema=TABLES.schema)


def fault(file_rows: pa.Table, **claims: object) -> str | None:
    """What the check reports for a file of these rows with these claims; None if nothing."""
    honest, raw = encode_state_file(TABLES, file_rows, "x")
    ref = json.decode(json.encode({**_fields(honest), **claims}), FileRef)
    fault_text = check_content({"tables": TABLES}, {"tables": ref}, raw)
    return fault_text if isinstance(fault_text, str) else None


def _fields(ref: FileRef) -> dict[str, object]:
    return {name: getattr(ref, name) for name in ref.__struct_fields__}


def test_a_file_that_is_what_its_manifest_says_has_no_fault() -> None:
    assert fault(some_rows()) is None


@pytest.mark.parametrize(
    ("claims", "names"),
    [
        ({"rows": 4}, "rows"),
        ({"low": ("s", "n1")}, "low"),
        ({"high": ("s", "n3")}, "high"),
        ({"buckets": (1, 2)}, "buckets"),
        ({"newest": 8}, "newest"),
        ({"dropped_from": "2026-01-01T00:00:00Z"}, "dropped_from"),
    ],
)
def test_every_claim_about_a_file_is_held_against_its_rows(
    claims: dict[str, object], names: str
) -> None:
    fault_text = fault(some_rows(), **claims)
    assert fault_text is not None
    assert f"has {names} " in fault_text


def test_rows_that_are_not_as_they_must_be_are_a_fault() -> None:
    rows = some_rows()
    assert fault(rows.take([1, 0, 2])) == "is not sorted"
    assert fault(rows.take([0, 1, 1, 2])) == "has two rows with one key"
    assert fault(rows.append_column("z", pa.array(["", "", ""]))) is not None
    assert fault(rows.drop_columns(["location"])) is None  # as a file of an older version
    at = rows.column_names.index("schema_version")
    narrow = pa.array([1, 1, 1], pa.int32())
    assert fault(rows.set_column(at, "schema_version", narrow)) is not None
    ref, _ = encode_state_file(TABLES, rows, "x")
    fault_text = check_content({"tables": TABLES}, {"tables": ref}, b"PAR1")
    assert fault_text == "is not a Parquet file"


def combined_fault(stored: pa.Table, *names: str) -> str | None:
    """What the check reports for a combined file that these tables name; None if nothing."""
    tables = {"tables": TABLES, "objects": OBJECTS}
    rows = {"tables": some_rows(), "objects": some_objects()}
    refs, _, _ = encode_combined_file(tables, rows, "x")
    sink = pa.BufferOutputStream()
    pq.write_table(stored, sink)
    named = {name: refs[name] for name in names}
    fault_text = check_content(tables, named, sink.getvalue().to_pybytes())
    return fault_text if isinstance(fault_text, str) else None


def some_objects() -> pa.Table:
    row = {"id": "o", "kind": "TABLE", "parent_id": "s", "_commit": 7, "_position": 0}
    return pa.Table.from_pylist([row], schema=OBJECTS.schema)


def test_a_combined_file_has_each_row_in_one_of_the_tables_that_name_it() -> None:
    rows = {"tables": some_rows(), "objects": some_objects()}
    raw = encode_combined_file({"tables": TABLES, "objects": OBJECTS}, rows, "x")[-1]
    stored = pq.read_table(pa.BufferReader(raw))
    assert combined_fault(stored, "tables", "objects") is None
    assert "has rows of" in str(combined_fault(stored, "tables"))
    assert "has rows of" in str(combined_fault(stored.select(["tables"]), "tables", "objects"))
    flat = stored.set_column(1, "objects", pa.array(["o"] * 4))
    assert "not the rows of a table" in str(combined_fault(flat, "tables", "objects"))
    tables, objects = (stored.column(name).combine_chunks() for name in ("tables", "objects"))
    last_object = pa.concat_arrays([objects.slice(0, 2), objects.slice(3, 1), objects.slice(3, 1)])
    both = pa.table({"tables": tables, "objects": last_object})
    assert "not of exactly one table" in str(combined_fault(both, "tables", "objects"))
    short = pa.table({"tables": tables.slice(1), "objects": objects.slice(1)})
    assert "has rows 2" in str(combined_fault(short, "tables", "objects"))
