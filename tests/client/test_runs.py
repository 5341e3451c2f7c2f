"""A run may be named by a part of its id, or as the last one."""

from collections.abc import Iterator

import pytest

from arco.client.models import RunInfo
from arco.client.runs import RunsApi
from arco.core.errors import Invalid, NotFound

NEWEST, OLDER, OLDEST = (f"01M7GVFS186HGNANJXDTGV{end}" for end in ("ZZ01", "AB02", "AB03"))


class ListedRuns(RunsApi):
    """A server that lists runs."""

    def __init__(self, *run_ids: str) -> None:
        self._run_ids = run_ids

    def list(self, *, status: str | None = None) -> Iterator[RunInfo]:
        assert status is None
        return (RunInfo(run_id=each) for each in self._run_ids)


def _find(given: str, *run_ids: str) -> str:
    return ListedRuns(*run_ids).find(given)


@pytest.mark.parametrize(
    ("given", "run_id"),
    [
        (OLDER, OLDER),
        ("last", NEWEST),
        ("AB03", OLDEST),
        ("ab03", OLDEST),
        ("01M7GVFS186HGNANJXDTGVZ", NEWEST),
        ("nothing-like-it", "nothing-like-it"),
    ],
)
def test_a_part_of_an_id_is_enough(given: str, run_id: str) -> None:
    assert _find(given, NEWEST, OLDER, OLDEST) == run_id


def test_a_part_that_fits_several_lists_them() -> None:
    with pytest.raises(Invalid, match=f"ambiguous: it fits {OLDER}, {OLDEST}. Give more"):
        _find("01M7GVFS186HGNANJXDTGVAB", NEWEST, OLDER, OLDEST)


def test_an_id_that_another_begins_with_means_itself() -> None:
    assert _find("etl", "etl-2", "etl") == "etl"


def test_without_runs_there_is_no_last() -> None:
    with pytest.raises(NotFound, match="no runs yet"):
        _find("last")
