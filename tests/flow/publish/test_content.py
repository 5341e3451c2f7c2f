"""The content of a table follows from its versions, and so does what it counts to."""

from hypothesis import given
from hypothesis import strategies as st

from arco.catalog.publication import Publication
from arco.flow.publish.content import (
    EMPTY_CONTENT,
    TableContent,
    apply_pointer,
    paths_of,
    totals_after,
)
from arco.flow.publish.pointer import Files, ParquetPointer, PublishMode, TableTotals
from arco.flow.publish.wire import StagedFile

_KEYS = st.sampled_from(["", "ds=1", "ds=2", "ds=3"])
_COUNTS = st.dictionaries(_KEYS, st.lists(st.integers(0, 9), max_size=3), max_size=3)
_STEPS = st.lists(st.tuples(st.sampled_from(PublishMode), _COUNTS), max_size=12)


def _files(number: int, counts: dict[str, list[int]]) -> Files:
    return {
        key: tuple(
            StagedFile(path=f"data/{number}/{key}/{place}", rows=rows, bytes=2 * rows)
            for place, rows in enumerate(some)
        )
        for key, some in counts.items()
    }


def _counted(content: TableContent) -> TableTotals:
    files = [each for some in content.files.values() for each in some]
    return TableTotals(
        rows=sum(each.rows for each in files),
        bytes=sum(each.bytes for each in files),
        files=len(files),
    )


@given(_STEPS)
def test_totals_are_what_a_count_of_all_files_would_give(
    steps: list[tuple[PublishMode, dict[str, list[int]]]],
) -> None:
    content, totals = EMPTY_CONTENT, TableTotals()
    for number, (mode, counts) in enumerate(steps):
        changed = {} if mode is PublishMode.FENCE else _files(number, counts)
        totals = totals_after(totals, content, mode, changed)
        before = content
        content = apply_pointer(before, _version(number, mode, changed, totals))
        assert totals == _counted(content)
        assert all(content.files.values()), "no partition is there without files"
        assert paths_of(changed) <= content.paths()
        if mode is PublishMode.APPEND:
            assert before.paths() <= content.paths()
        if mode is PublishMode.REPLACE:
            assert content.paths() == paths_of(changed)
        if mode is PublishMode.FENCE:
            assert content == before
        untouched = before.files.keys() - changed.keys()
        if mode is PublishMode.REPLACE_PARTITION:
            assert {key: content.files[key] for key in untouched} == {
                key: before.files[key] for key in untouched
            }
        assert all(content.materials[key] == str(number) for key in changed)


def _version(number: int, mode: PublishMode, changed: Files, totals: TableTotals) -> ParquetPointer:
    publication = Publication(attempt_id=str(number), task="t", is_fence=mode is PublishMode.FENCE)
    return ParquetPointer(
        mode=mode, publication=publication, totals=totals, data_number=number, changed=changed
    )
