"""Findings: what one check of `arco doctor` saw."""

from dataclasses import dataclass, field
from enum import StrEnum

from arco.cli.output import next_step
from arco.core.errors import ArcoError, Denied, Invalid, NotFound, Unavailable, Unknown

_NO_ANSWER = (
    "Check the address, the network, and that the cloud's own variables hold credentials (such as "
    "AWS_ACCESS_KEY_ID, GOOGLE_APPLICATION_CREDENTIALS or AZURE_STORAGE_ACCOUNT_KEY)."
)

_MISSING_IS_DENIED = (
    "S3 and Cloud Storage also deny the reading of an object that is not there to an identity that "
    "may not list."
)


class Status(StrEnum):
    """How a check ended."""

    OK = "ok"
    NOTE = "note"  # worth knowing, nothing to do now
    WARNING = "warning"  # works, but somebody should look
    FAILED = "failed"


@dataclass(frozen=True)
class Finding:
    """One line of the report."""

    name: str
    status: Status
    figure: str
    next_step: str = ""
    measured: dict[str, float] = field(default_factory=dict)  # the same for programs, units last


def ok(name: str, figure: str, **measured: float) -> Finding:
    """All is well."""
    return Finding(name, Status.OK, figure, measured=measured)


def failed(name: str, figure: str, next_step: str) -> Finding:
    """Something must be done first."""
    return Finding(name, Status.FAILED, figure, next_step)


def trouble(name: str, problem: ArcoError) -> Finding:
    """An error as a finding, with what to do about it while looking at a store."""
    steps: dict[type[ArcoError], str] = {
        Denied: f"{next_step(problem)} {_MISSING_IS_DENIED}",
        Invalid: "Name another place with --root or --store.",
        NotFound: "Create the bucket or container first.",
        Unavailable: _NO_ANSWER,
        Unknown: _NO_ANSWER,
    }
    return failed(name, str(problem), steps.get(type(problem), next_step(problem)))
