"""The findings of `arco doctor`, and the next steps that an error suggests to a user."""

from dataclasses import dataclass, field
from enum import StrEnum

from arco.core.errors import (
    ArcoError,
    Corrupt,
    Denied,
    Invalid,
    NotFound,
    StoreFull,
    StoreReadOnly,
    Unavailable,
    Unknown,
    Unsupported,
    next_step_for,
)

# For a person who runs Arco on this machine, where that differs from `ArcoError.next_step`.
_LOCAL_STEPS: dict[type[ArcoError], str] = {
    Corrupt: "Stop writing to this store and restore it from a backup.",
    Denied: "Check which identity is in use and what it may do; `arco iam render` prints the policies.",
    StoreReadOnly: "Mount it writable, or name another directory with --root, then try again.",
    StoreFull: "Free space on that disk, then try again: what was published stays.",
    Unavailable: "Check the address, the network and the credentials, then try again.",
}

_CHOOSE_ANOTHER = "Name another store with --root or --store."
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


class FindingStatus(StrEnum):
    """How a check ended."""

    OK = "ok"
    NOTE = "note"  # worth knowing, nothing to do now
    WARNING = "warning"  # works, but should be looked at
    FAILED = "failed"


@dataclass(frozen=True)
class DoctorFinding:
    """One line of the report."""

    name: str
    status: FindingStatus
    figure: str
    next_step: str = ""
    measured: dict[str, float] = field(default_factory=dict)  # the same for programs, units last


def ok(name: str, figure: str, **measured: float) -> DoctorFinding:
    """A check that passed."""
    rounded = {each: round(value, 3) for each, value in measured.items()}
    return DoctorFinding(name, FindingStatus.OK, figure, measured=rounded)


def failed(name: str, figure: str, next_step: str) -> DoctorFinding:
    """A check that failed: the store cannot be used before the next step is done."""
    return DoctorFinding(name, FindingStatus.FAILED, figure, next_step)


def error_finding(name: str, problem: ArcoError, *, is_local: bool) -> DoctorFinding:
    """The finding for a check that raised an error."""
    steps = _ON_DISK if is_local else _IN_A_CLOUD
    return failed(name, str(problem), steps.get(type(problem)) or next_step(problem))


def next_step(problem: ArcoError) -> str:
    """What a user should do about an error: its notes, or the advice for its class."""
    notes = getattr(problem, "__notes__", ())
    if notes:
        return " ".join(notes)
    return next_step_for(type(problem), _LOCAL_STEPS)
