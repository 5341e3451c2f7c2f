"""Coroutines that are begun on the spot, and left to wait only if they have to.

Most of what the protocols await is there already: a small file of the local disk, a part in memory. To give
each such thing a task or a timer of its own would cost more than the thing itself.
"""

import types
from collections.abc import Coroutine, Generator
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Begun(Generic[T]):
    """A coroutine after its first step: at its end, or waiting for something."""

    __slots__ = ("_waits", "_work", "is_done", "result")

    result: T

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self._work = work
        try:
            self._waits = work.send(None)
            self.is_done = False
        except StopIteration as done:
            self.result = done.value
            self.is_done = True

    async def rest(self) -> T:
        """Go on to the end. To be awaited once, by the task that has begun it."""
        return await _rest(self._work, self._waits)


@types.coroutine
def _rest(work: Coroutine[Any, Any, T], waits: object) -> Generator[Any, Any, T]:
    try:
        yield waits
    except BaseException as problem:
        try:
            waits = work.throw(problem)
        except StopIteration as done:
            result: T = done.value
        else:
            result = yield from _rest(work, waits)
    else:
        result = yield from work
    return result
