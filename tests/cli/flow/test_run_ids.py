"""A run may be named by a part of its id, or as the last one."""

from collections.abc import Iterator, Mapping
from typing import Any, cast

import msgspec
import pytest

from arco.cli.flow.run_ids import find_run
from arco.cli.remote import Remote
from arco.core.errors import Invalid, NotFound

NEWEST, OLDER, OLDEST = (f"01M7GVFS186HGNANJXDTGV{end}" for end in ("ZZ01", "AB02", "AB03"))


class Pages:
    """A server that lists runs, two in a page."""

    def __init__(self, *runs: str) -> None:
        self._runs = runs

    def pages(self, where: str, params: Mapping[str, Any]) -> Iterator[list[msgspec.Raw]]:
        assert where == "/runs"
        for at in range(0, len(self._runs), 2):
            page = self._runs[at : at + 2]
            yield [msgspec.Raw(msgspec.json.encode({"run_id": each})) for each in page]


def _found(given: str, *runs: str) -> str:
    return find_run(cast(Remote, Pages(*runs)), given)


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (OLDER, OLDER),
        ("last", NEWEST),
        ("AB03", OLDEST),
        ("ab03", OLDEST),
        ("01M7GVFS186HGNANJXDTGVZ", NEWEST),
        ("nothing-like-it", "nothing-like-it"),
    ],
)
def test_a_part_of_an_id_is_enough(given: str, found: str) -> None:
    assert _found(given, NEWEST, OLDER, OLDEST) == found


def test_a_part_that_fits_several_lists_them() -> None:
    with pytest.raises(Invalid, match=f"ambiguous: it fits {OLDER}, {OLDEST}. Give more"):
        _found("01M7GVFS186HGNANJXDTGVAB", NEWEST, OLDER, OLDEST)


def test_an_id_that_another_begins_with_means_itself() -> None:
    assert _found("etl", "etl-2", "etl") == "etl"


def test_without_runs_there_is_no_last() -> None:
    with pytest.raises(NotFound, match="no runs yet"):
        _found("last")
