"""Bodies and documents of pipelines that the book of runs has no types of its own for."""

from typing import Annotated

import msgspec
from msgspec import Meta

from arco.api.operations.reading import FreshPageQuery
from arco.api.query_params import Freshness, Query
from arco.api.wire import Document
from arco.flow.run.wire import RunStatus

WaitMs = Annotated[int, Meta(ge=0, le=30_000, description="How long to wait for news, at most.")]
Name = Annotated[str, Meta(min_length=1, max_length=255)]


class _Body(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is sent."""


class TablesAsked(_Body, frozen=True, kw_only=True):
    """Tables by their full names, whose state is asked for."""

    tables: Annotated[tuple[Name, ...], Meta(max_length=10_000)]


class CancelWish(_Body, frozen=True, kw_only=True):
    """Nothing needs to be said; `by` tells others who it was."""

    by: Name | None = None


class RetryWish(_Body, frozen=True, kw_only=True):
    """Who alone works on the new run; nobody named: any worker."""

    worker: Annotated[str, Meta(max_length=255)] = ""


class AttemptsWatched(_Body, frozen=True, kw_only=True):
    """Attempts of a worker, which wants to know which of them are to stop."""

    worker: Name
    attempt_ids: Annotated[tuple[Name, ...], Meta(max_length=1_000)]
    wait_ms: WaitMs = 0


class AttemptsStopped(Document, frozen=True, kw_only=True):
    """The attempts that are to stop at once."""

    attempt_ids: tuple[str, ...]


class ValuesChange(_Body, frozen=True, kw_only=True):
    """Values that a dynamic dimension gets, or loses."""

    dimension: Name
    values: Annotated[tuple[Name, ...], Meta(min_length=1, max_length=10_000)]
    remove: bool = False


class ValuesChanged(Document, frozen=True, kw_only=True):
    """What was told; it is durable."""

    dimension: str
    values: tuple[str, ...]
    removed: bool


class RunListQuery(FreshPageQuery, frozen=True, kw_only=True):
    """Runs of all pipelines, perhaps those in one status alone; all that was acknowledged is there."""

    freshness: Freshness = "fresh"
    status: RunStatus | None = None


class TaskListQuery(FreshPageQuery, frozen=True, kw_only=True):
    """Tasks of a run; all that was acknowledged is there."""

    freshness: Freshness = "fresh"


class LookQuery(Query, frozen=True, kw_only=True):
    """A look at a run: what has changed `since` a number of it, waiting for a change if asked to."""

    since: Annotated[int, Meta(ge=0, le=2**53)] = 0
    wait_ms: WaitMs = 0


class LogQuery(Query, frozen=True, kw_only=True):
    """The log of an attempt, from a piece on; of the last attempt if none is named."""

    attempt: Annotated[int, Meta(ge=1, le=10_000)] | None = None
    since: Annotated[int, Meta(ge=0, le=1_000_000)] = 0


class TaskLog(Document, frozen=True, kw_only=True):
    """What an attempt has logged; `next` is where to go on, `is_over` that nothing more will come."""

    run_id: str
    task: str
    attempt: int
    attempt_id: str
    text: str
    next: int
    is_over: bool
