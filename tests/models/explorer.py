"""A small explicit-state explorer.

It walks a model breadth-first over every interleaving, meets each state once, and returns the
shortest way to a violation. A model's states are immutable and hashable, its steps pure.
"""

import gc
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

State = TypeVar("State", bound=Hashable)


class Model(ABC, Generic[State]):
    """What can happen, and what must never be seen."""

    @abstractmethod
    def initial(self) -> State: ...

    @abstractmethod
    def steps(self, state: State) -> Iterable[tuple[str, State]]:
        """Everything that any actor could do next."""

    @abstractmethod
    def violation(self, state: State) -> str | None:
        """What is wrong with a state, whatever comes next."""

    def final(self, state: State) -> str | None:
        """What is wrong with a state in which nothing can happen any more."""
        return None

    def form(self, state: State) -> Hashable:
        """What distinguishes a state from others: actors that are alike may stand in any order."""
        return state


@dataclass(frozen=True)
class Exploration:
    states: int
    transitions: int
    depth: int
    violation: str | None
    trace: list[str]


class TooLarge(Exception):
    """The bound was reached: nothing is proved, so nothing is reported."""


def explore(model: Model[State], max_states: int = 1_000_000) -> Exploration:
    with _no_cycle_collection():
        return _Search(model, max_states).run()


class _Search(Generic[State]):
    def __init__(self, model: Model[State], max_states: int) -> None:
        self.model = model
        self.max_states = max_states
        self.came_from: dict[State, tuple[State, str] | None] = {}
        self.forms: set[Hashable] = set()
        self.transitions = 0

    def run(self) -> Exploration:
        start = self.model.initial()
        self.came_from[start] = None
        self.forms.add(self.model.form(start))
        if violation := self.model.violation(start):
            return self._report(0, violation, start)
        layer, depth = [start], 0
        while True:
            following: list[State] = []
            for state in layer:
                if counterexample := self._expand(state, following):
                    violation, violating = counterexample
                    return self._report(len(self._trace(violating)), violation, violating)
            if not following:
                return self._report(depth, None, start)
            layer, depth = following, depth + 1

    def _expand(self, state: State, following: list[State]) -> tuple[str, State] | None:
        stuck = True
        for label, successor in self.model.steps(state):
            self.transitions += 1
            if successor in self.came_from:
                stuck = stuck and successor == state
                continue
            stuck = False
            if (form := self.model.form(successor)) in self.forms:
                continue
            self.forms.add(form)
            self.came_from[successor] = (state, label)
            if violation := self.model.violation(successor):
                return violation, successor
            following.append(successor)
        if len(self.came_from) > self.max_states:
            raise TooLarge(f"more than {self.max_states} states")
        if stuck and (violation := self.model.final(state)):
            return violation, state
        return None

    def _report(self, depth: int, violation: str | None, state: State) -> Exploration:
        trace = self._trace(state) if violation else []
        return Exploration(len(self.came_from), self.transitions, depth, violation, trace)

    def _trace(self, state: State) -> list[str]:
        labels: list[str] = []
        while (step := self.came_from[state]) is not None:
            state, label = step
            labels.append(label)
        return labels[::-1]


@contextmanager
def _no_cycle_collection() -> Iterator[None]:
    """States hold no cycles, and walking all of them repeatedly takes half the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
