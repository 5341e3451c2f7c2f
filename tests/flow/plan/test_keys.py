"""Keys of tasks say a maker and a partition, and nothing else could be meant."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arco.flow.plan.keys import TaskName, read_key, short_name, task_key


@pytest.mark.parametrize(
    ("maker", "partition", "key"),
    [
        ("default.silver.orders", "ds=2026-01-10", "silver.orders@ds=2026-01-10"),
        ("default.silver.orders", "", "silver.orders"),
        ("other.silver.orders", "", "other.silver.orders"),
        ("default.default.orders", "", "default.orders"),
        ("report", "ds=2026-01-10", "report@ds=2026-01-10"),
        ("default.a@b.100%", "x=a@b", "a%40b.100%25@x=a@b"),
        ('default."a.b".c', "", '"a.b".c'),
    ],
)
def test_a_key_reads_back_as_what_it_was_made_of(maker: str, partition: str, key: str) -> None:
    assert task_key(maker, partition) == key
    assert read_key(key) == TaskName(maker, partition)


_PART = st.text("ab%@d.4\"0'", min_size=1, max_size=6).filter(lambda part: part.strip("."))


@given(st.sampled_from(["default", "other"]), _PART, _PART, st.sampled_from(["", "x=a@b", "y=%40"]))
def test_any_names_read_back(catalog: str, schema: str, table: str, partition: str) -> None:
    quoted = [
        part if "." not in part and '"' not in part else '"' + part.replace('"', '""') + '"'
        for part in (schema, table)
    ]
    maker = ".".join([catalog, *quoted])
    assert read_key(task_key(maker, partition)) == TaskName(maker, partition)


def test_a_name_of_two_levels_that_begins_with_default_keeps_it() -> None:
    assert short_name("default.default.x") == "default.x"
    assert short_name("report") == "report"
