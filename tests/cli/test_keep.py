from datetime import timedelta

import pytest

from arco.core.errors import Invalid
from arco.server.settings import RowRetention, SparkSettings
from tests.cli.command import arco, is_one_sentence


def test_tables_that_are_named_keep_their_rows_for_so_long() -> None:
    keep = RowRetention(keep=("executions=90", "tasks=0.5"))
    assert keep.spans() == {"executions": timedelta(days=90), "tasks": timedelta(hours=12)}
    assert keep.arguments() == ["--keep", "executions=90", "--keep", "tasks=0.5"]


@pytest.mark.parametrize(
    "wrong",
    [
        *("executions", "executions=", "executions=soon", "executions=0", "executions=-1"),
        *("executions=nan", "executions=inf", "executions=99999", "=90", "catalogs=90"),
    ],
)
def test_what_names_no_table_or_no_time_is_refused(wrong: str) -> None:
    with pytest.raises(Invalid, match="--keep"):
        RowRetention(keep=(wrong,)).spans()


def test_a_table_has_one_retention() -> None:
    with pytest.raises(Invalid, match="twice"):
        RowRetention(keep=("tasks=1", "tasks=2")).spans()
    assert RowRetention(keep=("tasks=1", "tasks=1")).spans() == {"tasks": timedelta(days=1)}


@pytest.mark.parametrize("command", ["up", "compactor"])
def test_a_table_that_is_not_there_is_refused_before_anything_is_opened(command: str) -> None:
    run = arco(command, "--store", "s3://nowhere", ARCO_KEEP="tasks=3, nonsense=5")
    assert run.returncode == 2
    assert is_one_sentence(run.stderr), run.stderr
    assert "nonsense" in run.stderr


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
def test_a_spark_that_cannot_be_is_refused(spark: SparkSettings) -> None:
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
def test_the_same_flags_go_to_a_process_of_ours(spark: SparkSettings) -> None:
    spark.check()
    flag, value = spark.arguments()
    assert value == (spark.remote if flag == "--remote" else spark.master)


def test_without_spark_nothing_is_asked_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    spark = SparkSettings(no_spark=True)
    spark.check()
    assert not spark.is_wanted()
