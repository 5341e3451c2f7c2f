"""Mutants: the code under test with one rule taken out, to prove that the scenarios would notice.

A mutant replaces one piece of text in the source of a function and swaps the function's code in
place, so that every module that has imported it is affected, and undoes that afterwards.
"""

import importlib
import inspect
import textwrap
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FunctionType

from .scenario import Result, Scenario, run_seed


@dataclass(frozen=True)
class Mutant:
    """One rule taken out."""

    name: str
    rule: str  # as it is cited: "law 8", "P6"
    target: str  # "module:function" or "module:Class.method"
    old: str
    new: str

    @contextmanager
    def applied(self) -> Iterator[None]:
        """The code under test without the rule."""
        function = self._function()
        original = function.__code__
        function.__code__ = self._mutated(function).__code__
        try:
            yield
        finally:
            function.__code__ = original

    def _function(self) -> FunctionType:
        module, _, path = self.target.partition(":")
        target: object = importlib.import_module(module)
        for part in path.split("."):
            target = inspect.getattr_static(target, part)
        target = getattr(target, "__func__", getattr(target, "fget", target))
        if not callable(target):
            raise TypeError(f"{self.target} is not a function")
        unwrapped = inspect.unwrap(target)
        if not isinstance(unwrapped, FunctionType):
            raise TypeError(f"{self.target} is not a function")
        return unwrapped

    def _mutated(self, function: FunctionType) -> FunctionType:
        source = textwrap.dedent(inspect.getsource(function))
        if source.count(self.old) != 1:
            raise ValueError(
                f"mutant {self.name!r}: {self.old!r} is found {source.count(self.old)} times in "
                f"{self.target}, not once"
            )
        names = dict(function.__globals__)
        exec(compile(source.replace(self.old, self.new), f"<mutant {self.name}>", "exec"), names)
        made = inspect.unwrap(names[function.__name__])
        if not isinstance(made, FunctionType):
            raise TypeError(f"{self.target} is no function any more")
        return made


def first_catch(
    mutant: Mutant, factory: Callable[[], Scenario], seeds: Iterable[int]
) -> Result | None:
    """The first seed whose audit notices the mutant."""
    with mutant.applied():
        for seed in seeds:
            result = run_seed(factory, seed)
            if result.violations:
                return result
    return None
