"""The retention: one setting for every command that forgets."""

import math
from datetime import timedelta
from pathlib import Path

import pytest

from arco.core.errors import Invalid
from arco.server.settings import MetadataRetention, parse_collect_every
from tests.cli.command import arco, is_one_sentence

TOKEN = "a-secret-of-our-own-processes-for-tests-only"


def test_it_is_seven_days_unless_set() -> None:
    assert MetadataRetention().span() == timedelta(days=7)
    assert MetadataRetention(2.5).ms() == 216_000_000


@pytest.mark.parametrize("days", [math.nan, math.inf, -math.inf, -1, 0, 1.99, 40_000])
def test_a_span_that_cannot_be_kept_is_refused(days: float) -> None:
    with pytest.raises(Invalid):
        MetadataRetention(days).span()


@pytest.mark.parametrize("hours", [math.nan, math.inf, -1, 10_000])
def test_a_pause_that_is_none_is_refused(hours: float) -> None:
    with pytest.raises(Invalid):
        parse_collect_every(hours)


def test_no_hours_between_collections_are_none_at_all() -> None:
    assert parse_collect_every(0) is None
    assert parse_collect_every(6) == 21_600_000
    assert parse_collect_every(1e-12) == 1


@pytest.mark.parametrize("command", ["up", "api", "compactor", "gc"])
def test_every_process_refuses_one_that_its_keys_would_outlive(
    command: str, tmp_path: Path
) -> None:
    root = tmp_path / "store"
    flagged = arco(command, "--root", root, "--retention-days", "1", ARCO_SERVICE_TOKEN=TOKEN)
    variable = arco(command, "--root", root, ARCO_RETENTION_DAYS="nan", ARCO_SERVICE_TOKEN=TOKEN)
    for run in (flagged, variable):
        assert run.returncode == 2
        assert is_one_sentence(run.stderr), run.stderr
        assert "idempotency key" in run.stderr
    assert not root.exists()


def test_a_compactor_that_would_collect_every_nan_hours_is_refused(tmp_path: Path) -> None:
    run = arco(
        *("compactor", "--root", tmp_path / "store", "--collect-every", "nan"),
        ARCO_SERVICE_TOKEN=TOKEN,
    )
    assert run.returncode == 2
    assert is_one_sentence(run.stderr), run.stderr
    assert list(tmp_path.iterdir()) == []
