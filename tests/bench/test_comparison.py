"""Medians, goals and the page that is generated from them; nothing is measured here."""

from collections import Counter
from dataclasses import replace

import pytest

from bench.__main__ import COMPARISONS, NEEDED_BY_PAGE
from bench.comparison import (
    ARCO,
    POLARIS,
    REFERENCE,
    CatalogServer,
    Comparison,
    MeasuredPath,
    Result,
    Round,
    Unit,
    median_result,
)
from bench.load import Load
from bench.performance_page import PAGE, Machine, page

_RATE = MeasuredPath("path", Unit.REQUESTS, times=2)
_WAIT = MeasuredPath("path", Unit.P50, times=1.2)
_MACHINE = Machine(cores=2, memory_gb=8, sync_ms=0.5)


def _load(value: float, statuses: dict[int, int] | None = None) -> Load:
    """Every figure is a multiple of `value`."""
    return Load(
        rate=value,
        ms=[2 * value, 2 * value, 9 * value],
        statuses=Counter(statuses or {200: 3}),
        error="",
        last={},
        cpu_ms=3 * value,
        root_cpu_ms=4 * value,
        switches=5 * value,
        peak_rss_bytes=round(6e6 * value),
        other_cores=7 * value,
    )


def _result(value: float) -> Result:
    return median_result(_RATE, [Round(_load(value))])


def _comparison(path: MeasuredPath, ours: float, theirs: float) -> Comparison:
    return Comparison(path, False, {ARCO: _result(ours), REFERENCE: _result(theirs)})


@pytest.mark.parametrize("values", [(1, 2, 30), (30, 1, 2), (2, 30, 1)])
def test_each_figure_is_the_median_of_the_rounds(values: tuple[float, ...]) -> None:
    result = median_result(_RATE, [Round(_load(value)) for value in values])
    assert (result.value, result.cpu_ms, result.root_cpu_ms, result.switches) == (2, 6, 8, 10)
    assert (result.peak_rss_mb, result.other_cores) == (12, 14)
    assert median_result(_WAIT, [Round(_load(value)) for value in values]).value == 4


def test_the_longest_wait_and_what_failed_are_of_all_rounds() -> None:
    rounds = [
        Round(_load(1, {200: 3, 409: 2}), lost=0),
        Round(_load(4, {200: 3, 500: 1}), lost=1),
        Round(_load(2), lost=0),
    ]
    result = median_result(_RATE, rounds)
    assert (result.longest_ms, result.refused, result.lost) == (36, 3, 1)


@pytest.mark.parametrize(
    ("path", "ours", "theirs", "ratio", "met"),
    [
        (_RATE, 200, 100, 2.0, True),
        (_RATE, 199, 100, 1.99, False),
        (_WAIT, 100, 120, 1.2, True),
        (_WAIT, 120, 100, 1 / 1.2, False),
    ],
)
def test_a_ratio_above_one_means_that_arco_is_faster(
    path: MeasuredPath, ours: float, theirs: float, ratio: float, met: bool
) -> None:
    comparison = _comparison(path, ours, theirs)
    assert comparison.ratio() == pytest.approx(ratio)
    assert comparison.met is met


def test_a_commit_near_the_write_of_its_bytes_is_fast_enough() -> None:
    path = MeasuredPath("path", Unit.PER_S, times=10, or_floor=True)
    slow = _comparison(path, 20, 10)  # 50 ms each
    assert slow.met is False
    for floor_ms, met in ((33.0, False), (34.0, True)):
        ours = replace(slow.arco, floor_ms=floor_ms)
        assert replace(slow, results={**slow.results, ARCO: ours}).met is met


def test_without_the_reference_server_no_goal_is_missed() -> None:
    alone = Comparison(_RATE, False, {ARCO: _result(1)})
    assert alone.met is None
    assert all(figure.met is None for figure in alone.figures())


def test_a_write_that_was_refused_or_lost_is_a_missed_promise() -> None:
    path = MeasuredPath("path", Unit.PER_S)
    for statuses, lost, met in (({200: 3}, 0, True), ({409: 1}, 0, False), ({200: 3}, 1, False)):
        result = median_result(path, [Round(_load(1, statuses), lost=lost)])
        figures = Comparison(path, False, {ARCO: result}).figures()
        assert [figure.met for figure in figures if figure.met is not None] == [met]


def _goals() -> list[MeasuredPath]:
    paths = [path for name in COMPARISONS for path in COMPARISONS[name].paths]
    return [path for path in paths if path.goal]


def test_the_generated_page_has_a_row_for_every_goal() -> None:
    names = (ARCO, REFERENCE, POLARIS)
    comparisons = [
        Comparison(path, group.is_native, {name: _result(1) for name in names})
        for group in COMPARISONS.values()
        for path in group.paths
    ]
    servers = [CatalogServer(name, "1.2.3", lambda _: pytest.fail("not started")) for name in names]
    text = page(list(COMPARISONS), comparisons, servers, _MACHINE)
    for path in _goals():
        assert f"\n| {path.title} | 1 | 1 | 1.00 | {path.goal} | " in text
    for group in COMPARISONS.values():
        for path in group.paths:
            assert path.what in text


def test_the_page_in_the_documentation_has_a_row_for_every_goal() -> None:
    rows = {cells[0]: cells for cells in map(_cells, PAGE.read_text().splitlines())}
    for path in (path for name in NEEDED_BY_PAGE for path in COMPARISONS[name].paths):
        assert path.title in rows
        assert not path.goal or path.goal in rows[path.title]


def _cells(line: str) -> list[str]:
    return line.removeprefix("| ").removesuffix(" |").split(" | ")
