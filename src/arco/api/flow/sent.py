"""What commands and workers send to the book of runs, beside the book's own types.

It stands apart from the other bodies, so that a command need not import a server to speak to one.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

WaitMs = Annotated[int, Meta(ge=0, le=30_000, description="How long to wait for news, at most.")]
Name = Annotated[str, Meta(min_length=1, max_length=255)]


class Sent(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is sent."""


class TablesAsked(Sent, frozen=True, kw_only=True, omit_defaults=True):
    """Tables by their full names, whose state is asked for.

    Of those in `files_of` the answer also names the files that no pipeline added.
    """

    tables: Annotated[tuple[Name, ...], Meta(max_length=10_000)]
    files_of: Annotated[tuple[Name, ...], Meta(max_length=10_000)] = ()


class CancelWish(Sent, frozen=True, kw_only=True):
    """Nothing needs to be said; `by` tells others who it was."""

    by: Name | None = None


class RetryWish(Sent, frozen=True, kw_only=True):
    """Who alone works on the new run; nobody named: any worker."""

    worker: Annotated[str, Meta(max_length=255)] = ""


class AttemptsWatched(Sent, frozen=True, kw_only=True):
    """Attempts of a worker, which wants to know which of them are to stop."""

    worker: Name
    attempt_ids: Annotated[tuple[Name, ...], Meta(max_length=1_000)]
    wait_ms: WaitMs = 0


class AttemptsStopped(msgspec.Struct, frozen=True, kw_only=True):
    """The attempts that are to stop at once."""

    attempt_ids: tuple[str, ...]
