"""A short run of what `python -m tests.api.fuzz` does at length with the Iceberg REST catalog."""

from pathlib import Path

from tests.api.iceberg.fuzz import fuzz_iceberg
from tests.api.running import served
from tests.figures import Figure


def test_made_up_requests_are_answered_as_the_protocol_has_it(
    tmp_path: Path, figure: Figure
) -> None:
    with served(tmp_path / "store") as api, api.client() as http:
        statuses = fuzz_iceberg(http, count=600)
        assert '"level":"error"' not in api.log
    assert {200, 204, 400, 404, 409} <= set(statuses)
    assert not [status for status in statuses if status >= 500 and status != 503]
    figure(f"Iceberg REST catalog: {statuses.total()} made-up requests, 0 wrong answers")
