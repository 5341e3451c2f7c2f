"""The settings of processes: valid values, the flags for a child, and what is rejected before a start."""

import math
from datetime import timedelta
from pathlib import Path

import pytest

from arco.core.errors import Invalid
from arco.server.settings import (
    MetadataRetention,
    RowRetention,
    SparkIdleTimeout,
    SparkSettings,
    parse_collect_every,
)
from tests.cli.command import arco, is_one_sentence

TOKEN = "a-secret-of-our-own-processes-for-tests-only"


def test_metadata_is_kept_for_seven_days_by_default() -> None:
    assert MetadataRetention().span() == timedelta(days=7)
    assert MetadataRetention(2.5).ms() == 216_000_000


@pytest.mark.parametrize("days", [math.nan, math.inf, -math.inf, -1, 0, 1.99, 40_000])
def test_a_retention_out_of_range_is_rejected(days: float) -> None:
    with pytest.raises(Invalid):
        MetadataRetention(days).span()


@pytest.mark.parametrize("hours", [math.nan, math.inf, -1, 10_000])
def test_a_collection_interval_out_of_range_is_rejected(hours: float) -> None:
    with pytest.raises(Invalid):
        parse_collect_every(hours)


def test_zero_hours_between_collections_mean_never() -> None:
    assert parse_collect_every(0) is None
    assert parse_collect_every(6) == 21_600_000
    assert parse_collect_every(1e-12) == 1


@pytest.mark.parametrize("command", ["up", "api", "compactor", "gc"])
def test_every_process_rejects_a_retention_that_idempotency_keys_would_outlive(
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


def test_a_compactor_rejects_nan_hours_between_collections(tmp_path: Path) -> None:
    run = arco(
        *("compactor", "--root", tmp_path / "store", "--collect-every", "nan"),
        ARCO_SERVICE_TOKEN=TOKEN,
    )
    assert run.returncode == 2
    assert is_one_sentence(run.stderr), run.stderr
    assert list(tmp_path.iterdir()) == []


def test_row_retention_is_parsed_and_passed_to_a_child() -> None:
    rows = RowRetention(keep=("executions=90", "tasks=0.5"))
    assert rows.spans() == {"executions": timedelta(days=90), "tasks": timedelta(hours=12)}
    assert rows.arguments() == ["--keep", "executions=90", "--keep", "tasks=0.5"]


@pytest.mark.parametrize(
    "text",
    [
        *("executions", "executions=", "executions=soon", "executions=0", "executions=-1"),
        *("executions=nan", "executions=inf", "executions=99999", "=90", "catalogs=90"),
    ],
)
def test_row_retention_without_a_known_table_and_a_number_of_days_is_rejected(text: str) -> None:
    with pytest.raises(Invalid, match="--keep"):
        RowRetention(keep=(text,)).spans()


def test_a_table_has_one_row_retention() -> None:
    with pytest.raises(Invalid, match="twice"):
        RowRetention(keep=("tasks=1", "tasks=2")).spans()
    assert RowRetention(keep=("tasks=1", "tasks=1")).spans() == {"tasks": timedelta(days=1)}


@pytest.mark.parametrize("command", ["up", "compactor"])
def test_row_retention_of_an_unknown_table_is_rejected_before_anything_is_opened(
    command: str,
) -> None:
    run = arco(command, "--store", "s3://nowhere", ARCO_KEEP="tasks=3, nonsense=5")
    assert run.returncode == 2
    assert is_one_sentence(run.stderr), run.stderr
    assert "nonsense" in run.stderr


@pytest.mark.parametrize(
    ("text", "ms"),
    [("60s", 60_000), ("10m", 600_000), ("1h", 3_600_000), ("0", None), ("0s", None)],
)
def test_the_idle_time_of_spark_is_a_duration_or_0_for_ever(text: str, ms: int | None) -> None:
    assert SparkIdleTimeout(text).ms() == ms


@pytest.mark.parametrize("command", ["up", "compactor"])
@pytest.mark.parametrize("text", ["soon", "10", "-1m", "1.5m", "99999999d"])
def test_a_wrong_idle_time_is_rejected_with_what_to_write(
    command: str, text: str, tmp_path: Path
) -> None:
    root = tmp_path / "store"
    flagged = arco(command, "--root", root, f"--spark-idle={text}", ARCO_SERVICE_TOKEN=TOKEN)
    variable = arco(command, "--root", root, ARCO_SPARK_IDLE=text, ARCO_SERVICE_TOKEN=TOKEN)
    for run in (flagged, variable):
        assert run.returncode == 2
        assert is_one_sentence(run.stderr), run.stderr
        assert f"--spark-idle {text!r} is" in run.stderr
        assert "such as '3h', or 0 to keep Spark running" in run.stderr
    assert not root.exists()


@pytest.mark.parametrize(
    "spark",
    [
        SparkSettings(master="cluster"),
        SparkSettings(master="local[x]"),
        SparkSettings(master="spark://"),
        SparkSettings(remote="http://host"),
        SparkSettings(remote="sc://"),
        SparkSettings(master="yarn", remote="sc://host:15002"),
    ],
)
def test_an_invalid_spark_is_rejected(spark: SparkSettings) -> None:
    with pytest.raises(Invalid, match=r"--master|--remote"):
        spark.check()


@pytest.mark.parametrize(
    "spark",
    [
        SparkSettings(master="local"),
        SparkSettings(master="local[4]"),
        SparkSettings(master="local[2,3]"),
        SparkSettings(master="spark://a:7077,b:7077"),
        SparkSettings(master="k8s://https://host:6443"),
        SparkSettings(remote="sc://host:15002/;use_ssl=true"),
    ],
)
def test_a_child_gets_the_same_spark(spark: SparkSettings) -> None:
    spark.check()
    flag, value = spark.arguments()
    assert value == (spark.remote if flag == "--remote" else spark.master)


def test_without_spark_no_java_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    spark = SparkSettings(no_spark=True)
    spark.check()
    assert not spark.is_wanted()
