"""Whose publication an attempt may take for that of its own task, without any JVM."""

from dataclasses import dataclass

import msgspec
import pytest

from arco.catalog.publication import ATTEMPT_PROPERTY, Attempt
from arco.flow.coordinator.run_state import attempt_id_of
from arco.flow.spark.attempt_ids import attempts_before
from arco.flow.spark.iceberg_table import IcebergTable


def _attempt(number: int) -> Attempt:
    return Attempt(
        attempt_id=attempt_id_of("RUN", "t@1", number),
        task="RUN/t@1",
        dispatched_at_number=number,
        dispatched_at_ms=0,
    )


@dataclass(frozen=True)
class _Snapshot:
    """A snapshot as Iceberg's library shows it."""

    attempt: Attempt

    def summary(self) -> dict[str, str]:
        return {ATTEMPT_PROPERTY: msgspec.json.encode(self.attempt).decode()}

    def parentId(self) -> None:  # noqa: N802 - as Java calls it
        return None


@dataclass(frozen=True)
class _Table:
    """A table of one snapshot."""

    snapshot: _Snapshot

    def currentSnapshot(self) -> _Snapshot:  # noqa: N802
        return self.snapshot


@pytest.mark.parametrize(
    ("publisher", "asker", "is_found"), [(1, 1, True), (1, 2, True), (3, 2, False)]
)
def test_what_an_earlier_attempt_has_published_counts_and_what_a_later_one_has_does_not(
    publisher: int, asker: int, is_found: bool
) -> None:
    table = IcebergTable(_Table(_Snapshot(_attempt(publisher))), None)
    found = table.published(attempts_before(_attempt(asker)))
    assert (found is not None) is is_found
