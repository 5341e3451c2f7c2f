"""Futures: the one thing that a simulated task can wait for, and what can be thrown into its wait.

Interrupts derive from BaseException, so that no `except Exception` of the code under test can mistake
the end of a task for an error of its own.
"""

from collections.abc import Generator
from typing import Any, Generic, Protocol, TypeVar

T = TypeVar("T")


class Interrupt(BaseException):
    """Something thrown into a task at the await where it stands."""

    wanted = True  # False once the task that waited for it has gone on without it


class Cancelled(Interrupt):
    """The task was cancelled."""


class Expired(Interrupt):
    """A deadline that the task is inside of has passed."""


class Waiter(Protocol):
    """What a future wakes."""

    def wake(self) -> None:
        """The future that was waited for is done."""


class Future(Generic[T]):
    """A result that is not there yet."""

    __slots__ = ("_error", "_value", "_waiters", "done")

    def __init__(self) -> None:
        self.done = False
        self._value: T
        self._error: BaseException | None = None
        self._waiters: list[Waiter] = []

    def resolve(self, value: T) -> None:
        """Give the result; a second one is ignored."""
        if not self.done:
            self._value = value
            self._finish()

    def fail(self, error: BaseException) -> None:
        """Give an error in place of a result; a second one is ignored."""
        if not self.done:
            self._error = error
            self._finish()

    def follow(self, other: "Future[T]") -> None:
        """Take over what another future, which is done, holds."""
        if other._error is not None:
            self.fail(other._error)
        else:
            self.resolve(other._value)

    def add(self, waiter: Waiter) -> None:
        """Wake `waiter` once the future is done."""
        if self.done:
            waiter.wake()
        else:
            self._waiters.append(waiter)

    def drop(self, waiter: Waiter) -> None:
        """Do not wake `waiter` any more."""
        if waiter in self._waiters:
            self._waiters.remove(waiter)

    def __await__(self) -> Generator["Future[Any]", None, T]:
        while not self.done:
            yield self
        if self._error is not None:
            try:
                raise self._error
            finally:
                del self  # the error's traceback holds this frame: no cycle for the collector
        return self._value

    def _finish(self) -> None:
        self.done = True
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            waiter.wake()
