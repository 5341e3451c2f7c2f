from collections.abc import Hashable, Iterator

import pytest

from tests.models.explorer import Model, TooLarge, explore

Cups = tuple[int, int]


class Pouring(Model[Cups]):
    """Two cups of 3 and 5: a state space that is known by heart."""

    forbidden: Cups | None = None
    alike = False

    def initial(self) -> Cups:
        return (0, 0)

    def steps(self, state: Cups) -> Iterator[tuple[str, Cups]]:
        small, large = state
        yield "fill small", (3, large)
        yield "fill large", (small, 5)
        yield "empty small", (0, large)
        yield "empty large", (small, 0)
        moved = min(small, 5 - large)
        yield "small to large", (small - moved, large + moved)
        moved = min(large, 3 - small)
        yield "large to small", (small + moved, large - moved)

    def violation(self, state: Cups) -> str | None:
        return "forbidden" if state == self.forbidden else None

    def form(self, state: Cups) -> Hashable:
        return tuple(sorted(state)) if self.alike else state


class Countdown(Model[int]):
    def initial(self) -> int:
        return 3

    def steps(self, state: int) -> Iterator[tuple[str, int]]:
        if state:
            yield "down", state - 1
        yield "wait", state

    def violation(self, state: int) -> str | None:
        return None

    def final(self, state: int) -> str | None:
        return "stopped at zero" if state == 0 else "stopped early"


def test_every_reachable_state_is_met_once() -> None:
    exploration = explore(Pouring())
    assert (exploration.states, exploration.transitions, exploration.violation) == (16, 96, None)


def test_a_counterexample_is_the_shortest() -> None:
    model = Pouring()
    model.forbidden = (0, 4)
    exploration = explore(model)
    assert exploration.violation == "forbidden"
    assert len(exploration.trace) == exploration.depth == 7
    assert exploration.trace[:2] == ["fill large", "large to small"]


def test_a_wrong_beginning_has_an_empty_trace() -> None:
    model = Pouring()
    model.forbidden = (0, 0)
    assert explore(model).violation == "forbidden"
    assert explore(model).trace == []


def test_states_of_one_form_are_explored_once() -> None:
    model = Pouring()
    model.alike = True
    assert explore(model).states < 16


def test_only_a_state_that_nothing_leaves_is_final() -> None:
    exploration = explore(Countdown())
    assert exploration.violation == "stopped at zero"
    assert exploration.trace == ["down", "down", "down"]


def test_an_exploration_that_was_cut_short_reports_nothing() -> None:
    with pytest.raises(TooLarge):
        explore(Pouring(), max_states=10)
