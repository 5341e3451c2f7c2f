"""How a load is divided among the processes that send it."""

import pytest

from bench.load import Plan, _shares


@pytest.mark.parametrize("processes", [1, 2, 3, 6, 16])
@pytest.mark.parametrize("count", [None, 1, 40, 950])
def test_the_shares_of_all_clients_are_the_whole_load(processes: int, count: int | None) -> None:
    shares = _shares(Plan(port=1, connections=16, count=count), processes)
    numbers = [share.first + number for share in shares for number in range(share.connections)]
    assert numbers == list(range(16))
    assert min(share.connections for share in shares) >= 1
    if count is None:
        assert [share.count for share in shares] == [None] * processes
    else:
        assert sum(share.count or 0 for share in shares) == count
