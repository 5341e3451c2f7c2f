"""The report of a verification: how much was checked, and the first problem."""

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
    LINK = "link"  # an entry of another chain: leases, slots, idempotency keys, pointers
    ANCHOR = "anchor"  # the chain is not the one from which the anchor was taken


class VerificationProblem(msgspec.Struct, frozen=True, kw_only=True):
    """The path of the wrong object in the workspace, and what is wrong with it."""

    kind: ProblemKind
    path: str
    explanation: str


class VerificationCounts(msgspec.Struct, kw_only=True):
    """How much was checked."""

    manifests: int = 0
    commits: int = 0
    files: int = 0
    rows: int = 0
    bytes: int = 0
    events: int = 0
    links: int = 0  # entries of other chains
    collected: int = 0  # events whose segment was collected before their commit was published


class VerificationReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a verification."""

    ok: bool
    domain: str
    floor: int
    head: int  # -1 if nothing is published yet
    head_sha256: str  # with the number, an anchor to keep outside the store
    checked: VerificationCounts
    problem: VerificationProblem | None = None


class Discrepancy(Exception):
    """An object is not what it must be; `number` is the manifest that names it, if one does.

    Verification turns it into a report and never raises it to its caller.
    """

    def __init__(
        self, kind: ProblemKind, path: str, explanation: str, *, number: int | None = None
    ) -> None:
        super().__init__(f"{path}: {explanation}")
        self.problem = VerificationProblem(kind=kind, path=path, explanation=explanation)
        self.number = number


def to_discrepancy(kind: ProblemKind, path: str, problem: Corrupt, number: int) -> Discrepancy:
    """The discrepancy for an object that could not be read."""
    return Discrepancy(kind, path, str(problem).removeprefix(f"{path} "), number=number)
