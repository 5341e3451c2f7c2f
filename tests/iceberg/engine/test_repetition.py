import pytest

from arco.core.json import Json
from arco.iceberg.engine.requirement import was_applied

ADDED: dict[str, Json] = {"snapshot-id": 7, "manifest-list": "file:///t/metadata/snap-7.avro"}
OTHER: dict[str, Json] = {"snapshot-id": 8, "manifest-list": "file:///t/metadata/snap-8.avro"}


def adding(*snapshots: Json) -> list[dict[str, Json]]:
    return [{"action": "add-snapshot", "snapshot": each} for each in snapshots]


def test_a_table_that_holds_the_very_snapshots_has_taken_the_request() -> None:
    assert was_applied({"snapshots": [OTHER, ADDED]}, adding(ADDED))
    assert was_applied({"snapshots": [OTHER, ADDED]}, adding(ADDED, OTHER))


@pytest.mark.parametrize(
    "updates",
    [
        [],
        [{"action": "set-properties", "updates": {"a": "b"}}],
        adding(ADDED, OTHER),
        adding({**ADDED, "manifest-list": "file:///t/metadata/another.avro"}),
        adding({"snapshot-id": 7}),
        adding(None),
    ],
)
def test_what_adds_nothing_or_something_else_was_not_applied(
    updates: list[dict[str, Json]],
) -> None:
    assert not was_applied({"snapshots": [ADDED]}, updates)


def test_a_table_without_snapshots_has_taken_nothing() -> None:
    assert not was_applied({}, adding(ADDED))
