"""The options that assets and tasks share, brought into one form."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from arco.catalog.name import check_tags
from arco.core.errors import Invalid
from arco.flow.define.collect import complain, current
from arco.flow.define.retry import NO_RETRY, Retry, duration_ms, retry_of
from arco.flow.define.settings import Settings
from arco.flow.partition import Dimension, Partitions

Cut = Partitions | Dimension | Sequence[Dimension] | None
UNPARTITIONED = Partitions(())


@dataclass(frozen=True)
class Running:
    """How a definition is run, whatever it computes."""

    retries: Retry
    timeout_ms: int | None
    pool: str
    tags: tuple[str, ...]
    owner: str | None


def running_of(
    retries: int | Retry | None,
    timeout: str | None,
    pool: str | None,
    tags: Sequence[str],
    owner: str | None,
) -> Running:
    """The options that were given, and the project's defaults for those that were not."""
    defaults = settings()
    return Running(
        retries=defaults.retries if retries is None else retry_of(retries),
        timeout_ms=duration_ms(timeout, "timeout"),
        pool=defaults.pool if pool is None else _pool(pool, defaults),
        tags=_tags((*defaults.tags, *((tags,) if isinstance(tags, str) else tags))),
        owner=defaults.owner if owner is None else owner,
    )


def settings() -> Settings:
    """Those of the project that is being loaded; plain ones otherwise."""
    collection = current()
    return Settings("", retries=NO_RETRY) if collection is None else collection.settings


def partitions_of(asked: Cut) -> Partitions:
    """The partitions of a definition: one dimension, the product of several, or none."""
    if asked is None:
        return UNPARTITIONED
    if isinstance(asked, Partitions):
        return asked
    dimensions = tuple(asked) if isinstance(asked, list | tuple) else (asked,)
    for each in dimensions:
        if not hasattr(each, "keys") or not hasattr(each, "name"):
            complain(f"partitions are dimensions such as Daily('ds', start=...), not {each!r}")
            return UNPARTITIONED
    try:
        return Partitions(dimensions)
    except Invalid as wrong:
        complain(str(wrong))
        return UNPARTITIONED


def description_of(given: str | None, function: Callable[..., object]) -> str:
    """The given text, or the function's docstring without its indentation."""
    return given if given is not None else inspect.getdoc(function) or ""


def _pool(asked: object, defaults: Settings) -> str:
    """A pool without slots has no bound: in a project that bounds some, it is a slip of the pen."""
    if not isinstance(asked, str) or not asked:
        complain(f"the pool is a text, not {asked!r}")
        return defaults.pool
    if (wrong := defaults.unknown_pool(asked)) is not None:
        complain(wrong)
    return asked


def _tags(tags: tuple[str, ...]) -> tuple[str, ...]:
    try:
        return tuple(sorted(check_tags(tags)))
    except Invalid as wrong:
        complain(str(wrong))
        return ()
