"""A short run of the fuzzer, `python -m tests.api.fuzz`."""

from pathlib import Path

from tests.api.fuzz import fuzz
from tests.api.iceberg.fuzz import fuzz_iceberg
from tests.api.server import served
from tests.figures import Figure


def test_made_up_requests_are_answered_as_the_document_says(tmp_path: Path) -> None:
    with served(tmp_path / "store") as api:
        tally = fuzz(api.url, count=150)
    assert tally.total >= 100
    assert {200, 201, 400, 404} <= set(tally.statuses)
    assert not [status for status in tally.statuses if status >= 500]


def test_made_up_requests_are_answered_as_the_protocol_has_it(
    tmp_path: Path, figure: Figure
) -> None:
    with served(tmp_path / "store") as api, api.client() as http:
        statuses = fuzz_iceberg(http, count=250)
        assert '"level":"error"' not in api.log
    assert {200, 204, 400, 404, 409} <= set(statuses)
    assert not [status for status in statuses if status >= 500 and status != 503]
    figure(f"Iceberg REST catalog: {statuses.total()} made-up requests, 0 wrong answers")
