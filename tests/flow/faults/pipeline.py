"""A project whose every row is known beforehand: one asset for each format and way of writing.

Each row names the asset and the day that it was made for, so that lost, doubled and foreign rows are
recognized. A pause in the last row of a day keeps Spark busy until it is stopped.
"""

from collections.abc import Iterable
from pathlib import Path

FIRST, SECOND = "2026-01-01", "2026-01-02"
NAP = "nap_ms"  # a parameter of a run: how long the last row of each asset takes

ROWS = 100
STEP = 50  # less than a day has rows: neighbours share some ids

WAYS = tuple(
    f"{form}_{mode}"
    for form in ("iceberg", "parquet")
    for mode in ("replace_partition", "replace", "append", "merge")
    if (form, mode) != ("parquet", "merge")
)
MADE = tuple(f"made.{way}" for way in WAYS)
TOTAL = "gold.total"

Row = tuple[
    str, int, int, str
]  # the day, the id, the amount, and the asset and day that it was made for
Rows = dict[str, list[Row]]

_HEAD = f"""
from arco import Daily, asset, checks, merge, table
from pyspark.sql import DataFrame, functions as F

DS = Daily("ds", start="{FIRST}", end="2026-01-03")


def rows(spark, ctx, table):
    day = int(ctx.partition["ds"][-2:])
    first = day * {STEP}
    made = spark.range(first, first + {ROWS}, 1, 2).select(
        "id",
        (F.col("id") * day).alias("amount"),
        F.lit(f"{{table}}/{{ctx.partition['ds']}}").alias("origin"),
    )
    nap_ms = int(ctx.params.get("{NAP}", "0"))
    if nap_ms:
        last = first + {ROWS} - 1
        nap = f"reflect('java.lang.Thread', 'sleep', if(id = {{last}}, {{nap_ms}}L, 0L))"
        made = made.where(F.expr(nap).isNotNull())
    return made
"""
_ASSET = """

@asset("made.{way}", partitions=DS, format="{form}", mode={mode}, retries={retries}, checks={checks})
def {way}(spark, ctx):
    return rows(spark, ctx, "{way}")
"""
_GOLD = f"""

@asset("{TOTAL}", partitions=DS, format="parquet", retries={{retries}})
def total(made: DataFrame = table("made.parquet_append")) -> DataFrame:
    return made.agg(
        F.count("id").alias("id"),
        F.sum("amount").cast("long").alias("amount"),
        F.max("origin").alias("origin"),
    )
"""


def write_project(folder: Path, retries: int = 0) -> Path:
    """The project, as a person would write it."""
    text = _HEAD
    for way in WAYS:
        form, _, mode = way.partition("_")
        text += _ASSET.format(
            way=way,
            form=form,
            mode='merge(on=["id"])' if mode == "merge" else f'"{mode}"',
            retries=retries,
            checks='[checks.not_null("id"), checks.unique("id")]' if mode == "append" else "[]",
        )
    text += _GOLD.format(retries=retries)
    package = folder / "pipelines"
    package.mkdir(parents=True)
    (package / "made.py").write_text(text)
    return folder


def rows_of(way: str, day: str) -> list[Row]:
    """What an asset makes of one day."""
    number = int(day[-2:])
    first = number * STEP
    return [(day, each, each * number, f"{way}/{day}") for each in range(first, first + ROWS)]


def rows_after(days: Iterable[str], tables: Iterable[str] = (*MADE, TOTAL)) -> Rows:
    """All rows of tables once these days were made, one after the other, without any trouble."""
    return {table: sorted(_after(table.partition(".")[2], tuple(days))) for table in tables}


def _after(way: str, days: tuple[str, ...]) -> list[Row]:
    if way == "total":
        return [_total(day) for day in days]
    made = [row for day in days for row in rows_of(way, day)]
    if way.endswith("_replace"):
        return rows_of(way, days[-1])
    if way.endswith("_merge"):
        return list({row[1]: row for row in made}.values())
    return made


def _total(day: str) -> Row:
    made = rows_of("parquet_append", day)
    return day, len(made), sum(row[2] for row in made), f"parquet_append/{day}"
