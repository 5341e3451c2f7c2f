"""What stands below a decorator: a plain function, under a decorator that was called."""

import inspect
from collections.abc import Callable
from typing import TypeVar, cast

from arco.flow.define.collect import complain

F = TypeVar("F", bound=Callable[..., object])


def without_call(word: str, example: str, function: object) -> Callable[[F], F]:
    """Complain of `@asset` where `@asset("gold.spend")` is meant: it was handed the function itself."""
    name = getattr(function, "__name__", repr(function))
    complain(f"@{word} above {name!r} declares nothing: write @{word}({example})")
    return cast("Callable[[F], F]", function)  # it stays the function that it was


def check_plain(function: Callable[..., object]) -> None:
    """Complain of a function whose call only begins something that nobody would carry on."""
    name = getattr(function, "__name__", repr(function))
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        complain(f"{name!r} is an `async def`, which nobody would wait for: write a plain `def`")
    elif inspect.isgeneratorfunction(function):
        complain(f"{name!r} has a `yield`, so calling it does nothing: write `return`")
