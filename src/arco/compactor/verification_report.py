"""What a verification has found: how much it has looked at, and the first thing that is wrong."""

from enum import StrEnum

import msgspec

from arco.core.errors import Corrupt


class ProblemKind(StrEnum):
    """What kind of object is wrong."""

    MANIFEST = "manifest"
    FLOOR = "floor"
    COMMIT = "commit"
    INDEX = "index"
    FILE = "file"
    EVENT = "event"
    LINK = "link"  # of a chain beside the manifests: leases, streams, idempotency keys
    ANCHOR = "anchor"  # the chain is not the one that an anchor was taken of


class VerificationProblem(msgspec.Struct, frozen=True, kw_only=True):
    """The object that is wrong, by its path in the workspace, and what is wrong with it."""

    kind: ProblemKind
    path: str
    explanation: str


class VerificationCounts(msgspec.Struct, kw_only=True):
    """How much was looked at."""

    manifests: int = 0
    commits: int = 0
    files: int = 0
    rows: int = 0
    bytes: int = 0
    events: int = 0
    links: int = 0  # of the chains beside the manifests
    collected: int = 0  # events whose segment had gone before their commit was published


class VerificationReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a verification."""

    ok: bool
    domain: str
    floor: int
    head: int  # -1 if nothing was published yet
    head_sha256: str  # an anchor to keep elsewhere, together with the number
    checked: VerificationCounts
    problem: VerificationProblem | None = None


class Discrepancy(Exception):
    """Something is wrong with an object; `number` is that of the manifest that leads to it, if one does.

    It ends in a report, and never leaves a verification.
    """

    def __init__(
        self, kind: ProblemKind, path: str, explanation: str, *, number: int | None = None
    ) -> None:
        super().__init__(f"{path}: {explanation}")
        self.problem = VerificationProblem(kind=kind, path=path, explanation=explanation)
        self.number = number


def to_discrepancy(kind: ProblemKind, path: str, problem: Corrupt, number: int) -> Discrepancy:
    """A problem that was met on reading an object, as one with that object."""
    return Discrepancy(kind, path, str(problem).removeprefix(f"{path} "), number=number)
