"""How errors are told: each protocol that is served here has its own words for them."""

from dataclasses import dataclass
from typing import Protocol

from arco.api.problem import CONTENT_TYPE, Refusal, encode_problem, headers_of, problem_of
from arco.api.route import Reply
from arco.core.errors import ArcoError


@dataclass(frozen=True)
class Told:
    """An error as it is sent, and as it is logged."""

    reply: Reply
    code: str
    expected: bool  # whether it is an error of ours, not a slip of the code


class Voice(Protocol):
    """The errors of one protocol."""

    def tell(self, error: BaseException, operation: str) -> Told:
        """What is answered to a request that ended in `error`; `none` if it had no operation yet."""


class NativeVoice:
    """Problem documents, whatever the operation."""

    def tell(self, error: BaseException, operation: str) -> Told:  # noqa: ARG002
        problem = problem_of(error)
        return Told(
            Reply(problem.status, encode_problem(problem), CONTENT_TYPE, headers=headers_of(error)),
            problem.code,
            expected=isinstance(error, ArcoError | Refusal),
        )


NATIVE: Voice = NativeVoice()
