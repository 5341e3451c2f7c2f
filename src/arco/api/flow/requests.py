"""What commands and workers send to the coordinator, besides the types of `flow.run`.

A module without imports of the server, so that commands and workers start fast.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from arco.flow.plan.plan import Plan

WaitMs = Annotated[int, Meta(ge=0, le=30_000, description="How long to wait for news, at most.")]
Name = Annotated[str, Meta(min_length=1, max_length=255)]


class FlowRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A body that a command or a worker sends."""


class FlowStateRequest(FlowRequest, frozen=True, kw_only=True, omit_defaults=True):
    """Tables by their full names, whose state is asked for.

    Of those in `files_of` the answer also names the files that no pipeline added.
    """

    tables: Annotated[tuple[Name, ...], Meta(max_length=10_000)]
    files_of: Annotated[tuple[Name, ...], Meta(max_length=10_000)] = ()


class CancelRunRequest(FlowRequest, frozen=True, kw_only=True):
    """Cancels a run; `by` records who asked for it, if given."""

    by: Name | None = None


class RetryRunRequest(FlowRequest, frozen=True, kw_only=True):
    """Runs again what a run has not made; `worker` restricts the new run to one worker.

    `plan` is a new plan of what the run has not made, or of some of it, with the present code. Without one
    the plan of the run is carried out again, by workers that have the code that it was made with.
    """

    worker: Annotated[str, Meta(max_length=255)] = ""
    plan: Plan | None = None


class WatchAttemptsRequest(FlowRequest, frozen=True, kw_only=True):
    """Attempts of a worker, which wants to know which of them are to stop."""

    worker: Name
    attempt_ids: Annotated[tuple[Name, ...], Meta(max_length=1_000)]
    wait_ms: WaitMs = 0


class StoppedAttempts(msgspec.Struct, frozen=True, kw_only=True):
    """The attempts that are to stop at once."""

    attempt_ids: tuple[str, ...]
