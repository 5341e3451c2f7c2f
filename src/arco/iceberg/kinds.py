"""The two metadata engines behind one face: what tables and views have in common for a commit."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from arco.catalog.model import ObjectKind
from arco.core.json import Json
from arco.iceberg.engine.metadata import Metadata
from arco.iceberg.engine.requirement import check_requirements
from arco.iceberg.engine.update import apply_updates
from arco.iceberg.engine.view_update import apply_view_updates, check_view_requirements

Changes = Sequence[dict[str, Json]]


@dataclass(frozen=True)
class Engine:
    """How metadata of one kind are checked and changed."""

    kind: ObjectKind
    check: Callable[[Metadata | None, Changes], None]
    # base, updates, the time, where the base is stored
    apply: Callable[[Metadata | None, Changes, int, str | None], Metadata]


def _apply_to_table(
    base: Metadata | None, updates: Changes, now_ms: int, previous: str | None
) -> Metadata:
    return apply_updates(base, updates, now_ms=now_ms, previous_location=previous)


def _apply_to_view(
    base: Metadata | None, updates: Changes, now_ms: int, previous: str | None
) -> Metadata:
    del previous  # views keep no log of their files
    return apply_view_updates(base, updates, now_ms=now_ms)


TABLES = Engine(ObjectKind.TABLE, check_requirements, _apply_to_table)
VIEWS = Engine(ObjectKind.VIEW, check_view_requirements, _apply_to_view)
