"""Bodies and documents of pipelines that the book of runs has no types of its own for.

Those that `arco plan`, `arco run` and workers send themselves are in `sent`.
"""

from typing import Annotated

from msgspec import Meta

from arco.api.flow.sent import Name, Sent, WaitMs
from arco.api.operations.reading import FreshPageQuery
from arco.api.query_params import Freshness, Query
from arco.api.wire import Document
from arco.flow.coordinator.messages import RunStatus


class ValuesChange(Sent, frozen=True, kw_only=True):
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
