"""The text of queries: tables become views, and values stand where they are asked for."""

import pytest

from arco.flow.spark.user_code import replace_parameters, replace_tables

VIEWS = {"default.silver.orders": "v0", "lake.raw.b": "v1"}


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT * FROM silver.orders", "SELECT * FROM `v0` AS `orders`"),
        ("SELECT * FROM silver.orders o", "SELECT * FROM `v0` o"),
        ("SELECT * FROM default.silver.orders AS o;\n", "SELECT * FROM `v0` AS o"),
        (
            "select 1 from silver.orders -- of silver.orders\nwhere a = 'from silver.orders'",
            "select 1 from `v0` AS `orders` -- of silver.orders\nwhere a = 'from silver.orders'",
        ),
        (
            "SELECT * FROM silver.orders JOIN `lake`.raw.b USING (id)",
            "SELECT * FROM `v0` AS `orders` JOIN `v1` AS `b` USING (id)",
        ),
        ("SELECT * FROM silver.orders, lake.raw.b x", "SELECT * FROM `v0` AS `orders`, `v1` x"),
        (
            "SELECT * FROM silver.orders VERSION AS OF 3",
            "SELECT * FROM silver.orders VERSION AS OF 3",
        ),
        (
            "SELECT * FROM silver.orders TABLESAMPLE (1 ROWS)",
            "SELECT * FROM `v0` TABLESAMPLE (1 ROWS)",
        ),
        ("SELECT * FROM gold.other", "SELECT * FROM gold.other"),
        (
            "SELECT * FROM (SELECT 1) a, silver.orders, (lake.raw.b x)",
            "SELECT * FROM (SELECT 1) a, `v0` AS `orders`, (`v1` x)",
        ),
        (
            "SELECT * FROM (silver.orders JOIN lake.raw.b USING (id))",
            "SELECT * FROM (`v0` AS `orders` JOIN `v1` AS `b` USING (id))",
        ),
    ],
)
def test_tables_become_views(sql: str, expected: str) -> None:
    assert replace_tables(sql, VIEWS) == expected


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT :ds AS ds", "SELECT '2026-01-05' AS ds"),
        ("WHERE d>=:ds AND x = ':ds' -- :ds", "WHERE d>='2026-01-05' AND x = ':ds' -- :ds"),
        ("SELECT payload:ds, amount::int, f(x):ds", "SELECT payload:ds, amount::int, f(x):ds"),
        ("SELECT :other, :odd", r"SELECT :other, 'it\'s \\ odd'"),
    ],
)
def test_values_stand_where_they_are_asked_for(sql: str, expected: str) -> None:
    assert replace_parameters(sql, {"ds": "2026-01-05", "odd": "it's \\ odd"}) == expected
