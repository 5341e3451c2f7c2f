"""Which partitions `arco partitions clear` means."""

import pytest

from arco.cli.flow.partition_clearing import chosen_partitions
from arco.core.errors import NotFound
from arco.flow.plan.table_state import TableState

DAYS = TableState(table_id="t", keys=("ds=2026-01-01", "ds=2026-01-02", "ds=2026-01-10"))
BOTH = TableState(table_id="t", keys=("ds=2026-01-01/region=eu", "ds=2026-01-01/region=us"))
WHOLE = TableState(table_id="t", keys=("",))


@pytest.mark.parametrize(
    ("state", "named", "keys"),
    [
        (DAYS, ["ds=2026-01-02"], ("ds=2026-01-02",)),
        (DAYS, ["2026-01-02", "ds=2026-01-02"], ("ds=2026-01-02",)),
        (DAYS, ["2026-01-01..2026-01-02"], ("ds=2026-01-01", "ds=2026-01-02")),
        (DAYS, ["2026-01-02.."], ("ds=2026-01-02", "ds=2026-01-10")),
        (DAYS, ["all"], DAYS.keys),
        (BOTH, ["ds=2026-01-01/region=us"], ("ds=2026-01-01/region=us",)),
        (WHOLE, ["all"], ("",)),
    ],
)
def test_partitions_are_named_by_key_value_range_or_all(
    state: TableState, named: list[str], keys: tuple[str, ...]
) -> None:
    assert chosen_partitions("default.silver.orders", state, named) == keys


@pytest.mark.parametrize(
    ("state", "named", "message"),
    [
        (DAYS, "2026-01-03", "silver.orders has no partition '2026-01-03': it has 3, such as"),
        (BOTH, "eu", "has no partition 'eu'"),
        (TableState(), "all", "there is no table silver.orders"),
        (TableState(table_id="t"), "all", "no pipeline has made a partition"),
    ],
)
def test_what_does_not_exist_is_refused(state: TableState, named: str, message: str) -> None:
    with pytest.raises(NotFound, match=message):
        chosen_partitions("default.silver.orders", state, [named])
