"""Failures of a task, told as data: who gets them raises the same error, without a trace of the journey."""

from collections.abc import Iterator

import msgspec

from arco.compactor.job import EngineCrashed
from arco.core.errors import ArcoError, Unavailable

# A room may have kinds of its own, which are made of more than a message.
_CORE = ArcoError.__module__


class Failure(msgspec.Struct, frozen=True):
    """An error of ours in another process."""

    code: str
    message: str

    def error(self) -> ArcoError:
        """The error as it was raised there."""
        kinds = {kind.code: kind for kind in _kinds(ArcoError) if kind.__module__ == _CORE}
        kinds[EngineCrashed.code] = EngineCrashed
        # Of a newer Arco, that has more kinds of errors: nothing was published, so try again.
        return kinds.get(self.code, Unavailable)(self.message)


def failure_of(problem: ArcoError) -> Failure:
    """What went wrong, for the journey."""
    return Failure(problem.code, str(problem))


def _kinds(root: type[ArcoError]) -> Iterator[type[ArcoError]]:
    for kind in root.__subclasses__():
        yield kind
        yield from _kinds(kind)
