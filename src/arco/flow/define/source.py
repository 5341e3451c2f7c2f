"""Sources: tables that something else fills, and that assets may read."""

from collections.abc import Sequence
from dataclasses import dataclass

from arco.flow.define.check import CheckDef, checks_of
from arco.flow.define.collect import current, here
from arco.flow.define.name import full_name
from arco.flow.define.option import Cut, partitions_of, running_of
from arco.flow.define.retry import duration_ms
from arco.flow.define.where import SourceLine
from arco.flow.partition import Partitions


@dataclass(frozen=True)
class SourceDef:
    """A table from outside; its data are expected to be at most `freshness_ms` old."""

    name: str
    partitions: Partitions
    freshness_ms: int | None
    checks: tuple[CheckDef, ...]
    tags: tuple[str, ...]
    owner: str | None
    description: str
    where: SourceLine


def source(
    name: str,
    *,
    partitions: Cut = None,
    freshness: str | None = None,
    checks: Sequence[CheckDef] = (),
    tags: Sequence[str] = (),
    owner: str | None = None,
    description: str = "",
) -> SourceDef:
    """Declare a table that something else fills."""
    where = here()
    called = full_name(name)
    made = SourceDef(
        name=called,
        partitions=partitions_of(partitions),
        freshness_ms=duration_ms(freshness, "freshness"),
        checks=checks_of(called, checks),
        tags=running_of(None, None, None, tags, owner).tags,
        owner=owner,
        description=description,
        where=where,
    )
    if (collection := current()) is not None:
        collection.sources.append(made)
    return made
