"""Findings: what one check of `arco doctor` saw."""

from dataclasses import dataclass, field
from enum import StrEnum

from arco.cli.output import next_step
from arco.core.errors import (
    ArcoError,
    Denied,
    Invalid,
    NotFound,
    Unavailable,
    Unknown,
    Unsupported,
)

_CHOOSE_ANOTHER = "Name another place with --root or --store."
_LOOK_AT_THE_DISK = "Look at the disk and at the permissions of the directory."
_CREDENTIALS = (
    "that the cloud's own variables hold credentials (such as AWS_ACCESS_KEY_ID, "
    "GOOGLE_APPLICATION_CREDENTIALS or AZURE_STORAGE_ACCOUNT_KEY)"
)
_NO_ANSWER = f"Check the address, the network, and {_CREDENTIALS}."
_REFUSED = (
    f"Check {_CREDENTIALS}, then what that identity may do; `arco iam render` prints the policies. S3 "
    "and Cloud Storage also refuse to say that an object is missing to an identity that may not list."
)
NO_BUCKET = "Create the bucket or container first, and check the endpoint if you gave one."

_ON_DISK: dict[type[ArcoError], str] = {
    Denied: _LOOK_AT_THE_DISK,
    Invalid: _CHOOSE_ANOTHER,
    Unavailable: _LOOK_AT_THE_DISK,
    Unknown: _LOOK_AT_THE_DISK,
    Unsupported: _CHOOSE_ANOTHER,
}
_IN_A_CLOUD: dict[type[ArcoError], str] = {
    Denied: _REFUSED,
    Invalid: _CHOOSE_ANOTHER,
    NotFound: NO_BUCKET,
    Unavailable: _NO_ANSWER,
    Unknown: _NO_ANSWER,
    Unsupported: _CHOOSE_ANOTHER,
}


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
    rounded = {each: round(value, 3) for each, value in measured.items()}
    return Finding(name, Status.OK, figure, measured=rounded)


def failed(name: str, figure: str, next_step: str) -> Finding:
    """Something must be done first."""
    return Finding(name, Status.FAILED, figure, next_step)


def trouble(name: str, problem: ArcoError, *, is_local: bool) -> Finding:
    """An error as a finding, with what to do about it while looking at a store."""
    steps = _ON_DISK if is_local else _IN_A_CLOUD
    return failed(name, str(problem), steps.get(type(problem)) or next_step(problem))
