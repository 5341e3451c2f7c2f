"""A short run of what `python -m tests.api.fuzz` does at length."""

from pathlib import Path

from tests.api.fuzz import fuzz
from tests.api.running import served


def test_made_up_requests_are_answered_as_the_document_says(tmp_path: Path) -> None:
    with served(tmp_path / "store") as api:
        tally = fuzz(api.url, count=300)
    assert tally.total >= 200
    assert {200, 201, 400, 404} <= set(tally.statuses)
    assert not [status for status in tally.statuses if status >= 500]
