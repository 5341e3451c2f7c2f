"""The audit itself: it finds what it is there to find, in notes that were made to lie."""

from dataclasses import replace
from pathlib import Path

from arco.core.runtime import Runtime
from tests.processes.audit import audit, audit_notes, direct_reader
from tests.processes.deployment import all_in_one, place_of
from tests.processes.journal import Journal, Note, Outcome
from tests.processes.load_run import changes, under_load


async def test_the_audit_finds_each_kind_of_lie(tmp_path: Path, runtime: Runtime) -> None:
    url = str(tmp_path / "store")
    deployment = all_in_one(place_of(url), tmp_path)
    async with deployment.up():
        journal = await under_load(deployment, changes(60), seed=4)
        reader = direct_reader(url, runtime)

        async def find_problems(notes: list[Note]) -> str:
            lying = Journal(notes=notes, acks=journal.acks)
            return "\n".join(await audit_notes(reader, lying))

        notes = journal.notes
        assert await find_problems(notes) == ""
        done = next(note for note in notes if note.document and note.change.marked)
        dropped = next(note for note in notes if note.outcome is Outcome.DONE and not note.document)
        for note in (done, dropped):
            # As if it had been refused, or made twice: the store holds a change that nobody claims.
            assert "made twice" in await find_problems(_without(notes, note))
            for outcome in (Outcome.REFUSED, Outcome.TURNED_AWAY):
                assert "though refused" in await find_problems(
                    _changed(notes, note, outcome=outcome)
                )
            # As if the answer had been lost: that is no one's fault, and is not blamed.
            assert await find_problems(_changed(notes, note, outcome=Outcome.UNKNOWN)) == ""
            # As if it had been lost: somebody was told of a change that is not there.
            assert "lost" in await find_problems(_changed(notes, note, commit=10_000))
            assert "lost" in await find_problems([*notes, note])
        assert done.document is not None
        other_document = done.document | {"name": "another"}
        assert "was told" in await find_problems(_changed(notes, done, document=other_document))
        other = replace(done.change, mark="never-sent")
        lost = Note(other, Outcome.UNKNOWN)
        assert "made twice" in await find_problems([*_without(notes, done), lost])


async def test_the_audit_sees_a_store_that_was_tampered_with(
    tmp_path: Path, runtime: Runtime
) -> None:
    url = str(tmp_path / "store")
    deployment = all_in_one(place_of(url), tmp_path)
    async with deployment.up():
        journal = await under_load(deployment, changes(10), seed=5)
        # No reader ever opens the events again; only `arco verify` does.
        for segment in tmp_path.glob("store/**/ledger/**/*.jsonl"):
            segment.write_bytes(segment.read_bytes().replace(b"w0-", b"w9-"))
        wrong = await audit(deployment, direct_reader(url, runtime), journal)
    assert [each.split(":")[0] for each in wrong] == ["arco verify"]


def _without(notes: list[Note], note: Note) -> list[Note]:
    return [each for each in notes if each is not note]


def _changed(notes: list[Note], note: Note, **changed: object) -> list[Note]:
    return [replace(each, **changed) if each is note else each for each in notes]  # type: ignore[arg-type]
