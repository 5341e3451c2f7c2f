from collections.abc import Sequence

import pytest

from arco.core.errors import Conflict, Invalid
from arco.core.json import Json
from arco.iceberg.engine.metadata import Metadata
from tests.iceberg.engine.sample_metadata import (
    CREATED_MS,
    add,
    append,
    apply,
    point,
    snapshot,
    table,
    update,
)


def remove(*snapshot_ids: Json) -> Json:
    return update("remove-snapshots", snapshot_ids=[*snapshot_ids])


def log(metadata: Metadata) -> list[tuple[Json, Json]]:
    entries = metadata["snapshot-log"]
    assert isinstance(entries, list)
    return [
        (entry["snapshot-id"], entry["timestamp-ms"])
        for entry in entries
        if isinstance(entry, dict)
    ]


def logged(*numbers: int) -> list[tuple[int, int]]:
    return [(number, CREATED_MS + number) for number in numbers]


def file_of(snapshot_id: int, size: int = 1) -> dict[str, Json]:
    return {
        "snapshot-id": snapshot_id,
        "statistics-path": f"s-{snapshot_id}",
        "file-size-in-bytes": size,
        "file-footer-size-in-bytes": 1,
        "blob-metadata": [],
        "vendor": "x",
    }


def statistics(snapshot_id: int, size: int = 1) -> list[Json]:
    return [
        update("set-statistics", statistics=file_of(snapshot_id, size)),
        update("set-partition-statistics", partition_statistics=file_of(snapshot_id, size)),
    ]


def test_an_added_snapshot_is_seen_once_main_names_it() -> None:
    added = apply(table(), add(1, vendor={"a": 1}))
    assert added["snapshots"] == [snapshot(1, vendor={"a": 1})]
    assert (added["current-snapshot-id"], added["last-sequence-number"]) == (-1, 1)
    assert log(added) == []
    current = apply(added, point(1), now_ms=CREATED_MS + 70)
    assert current["current-snapshot-id"] == 1
    assert current["refs"] == {"main": {"snapshot-id": 1, "type": "branch"}}
    assert log(current) == [
        (1, CREATED_MS + 70)
    ]  # it was there before: what happens now is the going to it


def test_a_snapshot_that_is_added_and_shown_at_once_is_logged_with_its_own_time() -> None:
    metadata = apply(table(), add(1), point(1), now_ms=CREATED_MS + 999)
    assert log(metadata) == logged(1)
    assert metadata["last-updated-ms"] == CREATED_MS + 999


def test_nulls_of_a_snapshot_are_left_out_since_readers_trip_over_them() -> None:
    sent = add(1, **{"parent-snapshot-id": None, "first-row-id": None, "key-id": None, "x": None})
    assert apply(table(), sent)["snapshots"] == [snapshot(1, x=None)]


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (add(1), "Snapshot already exists for id: 1"),
        (add(9, **{"manifest-list": None}), "lacks manifest-list"),
        (add(9, summary={"operation": 1}), "operation in summary"),
        (add(9, **{"first-row-id": -1, "added-rows": 1}), "first-row-id"),
        (add(9, **{"first-row-id": 1}), "required when first-row-id is set"),
    ],
)
def test_a_wrong_snapshot_is_refused(sent: Json, why: str) -> None:
    with pytest.raises(Invalid, match=why):
        apply(append(table(), 1), sent)


@pytest.mark.parametrize("number", [1, 2])
def test_a_stale_sequence_number_is_a_conflict_that_asks_for_a_retry(number: int) -> None:
    base = append(table(), 1, 2)
    with pytest.raises(Conflict) as refusal:
        apply(base, add(9, 1, **{"sequence-number": number}))
    assert str(refusal.value) == (
        "Validation failed, please retry: Cannot add snapshot with sequence number "
        f"{number} older than last sequence number 2"
    )


def test_a_snapshot_without_a_parent_may_have_the_last_sequence_number_but_none_below() -> None:
    base = append(table(), 1, 2)
    replaced = apply(base, add(9, **{"sequence-number": 2}), point(9))
    assert (replaced["current-snapshot-id"], replaced["last-sequence-number"]) == (9, 2)
    with pytest.raises(Conflict, match="please retry"):
        apply(base, add(9, **{"sequence-number": 1}))


def test_version_1_has_no_sequence_numbers_and_may_list_manifests() -> None:
    old: dict[str, Json] = {"snapshot-id": 5, "timestamp-ms": CREATED_MS, "manifests": ["a.avro"]}
    metadata = apply(table(1), update("add-snapshot", snapshot=old))
    assert metadata["snapshots"] == [old]
    assert "last-sequence-number" not in metadata
    with pytest.raises(Invalid, match="Sequence number must be 0 in v1: 1"):
        apply(table(1), add(1))
    with pytest.raises(Invalid, match="lacks manifest-list"):
        apply(table(2), update("add-snapshot", snapshot=old))


def test_version_3_numbers_the_rows_of_each_snapshot() -> None:
    base = apply(table(3), add(1, **{"first-row-id": 0, "added-rows": 10}), point(1))
    assert base["next-row-id"] == 10
    more = apply(base, add(2, 1, **{"first-row-id": 10, "added-rows": 5}))
    assert more["next-row-id"] == 15
    gap = apply(base, add(2, 1, **{"first-row-id": 40, "added-rows": 5}))
    assert gap["next-row-id"] == 45  # rows 40 to 44 are taken
    with pytest.raises(Invalid, match="first-row-id is null"):
        apply(base, add(2, 1))
    with pytest.raises(
        Conflict, match=r"^Validation failed, please retry: .* next-row-id: 9 < 10$"
    ):
        apply(base, add(2, 1, **{"first-row-id": 9, "added-rows": 1}))


def test_snapshots_that_are_passed_by_within_a_commit_are_not_in_the_log() -> None:
    base = append(table(), 1)
    metadata = apply(base, add(2, 1), point(2), add(3, 2), point(3), add(4, 3), point(4))
    assert log(metadata) == logged(1, 4)
    assert metadata["current-snapshot-id"] == 4


def test_going_back_is_logged_at_the_time_of_the_commit() -> None:
    base = append(table(), 1, 2, 3)
    back = apply(base, point(1), now_ms=CREATED_MS + 500)
    assert log(back) == [*logged(1, 2, 3), (1, CREATED_MS + 500)]
    there_and_back = apply(base, add(4, 3), point(4), point(3), now_ms=CREATED_MS + 500)
    assert log(there_and_back) == [*logged(1, 2, 3), (3, CREATED_MS + 500)]


def test_branches_and_tags_keep_their_limits_and_leave_the_log_alone() -> None:
    base = append(table(), 1, 2)
    limits: dict[str, Json] = {
        "min-snapshots-to-keep": 2,
        "max-snapshot-age-ms": 3,
        "max-ref-age-ms": 4,
    }
    metadata = apply(base, point(1, "audit", "BRANCH", note="x", **limits), point(2, "v1", "tag"))
    assert metadata["refs"] == {
        "main": {"snapshot-id": 2, "type": "branch"},
        "audit": {"snapshot-id": 1, "type": "branch", "note": "x", **limits},
        "v1": {"snapshot-id": 2, "type": "tag"},
    }
    assert log(metadata) == logged(1, 2)
    assert apply(metadata, point(2, "v1", "tag", **{"max-ref-age-ms": None})) is metadata


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (point(77), "Cannot set main to unknown snapshot: 77"),
        (point(1, "main", "tag"), "Cannot set main to a tag"),
        (point(1, "b", "twig"), "Invalid snapshot ref type: twig"),
        (point(1, "t", "tag", min_snapshots_to_keep=1), "Tags do not support setting min-snap"),
        (point(1, "t", "tag", max_snapshot_age_ms=1), "Tags do not support setting max-snap"),
        (point(1, "b", max_ref_age_ms=0), "max-ref-age-ms must be greater than 0"),
    ],
)
def test_a_wrong_ref_is_refused(sent: Json, why: str) -> None:
    with pytest.raises(Invalid, match=why):
        apply(append(table(), 1), sent)


def test_without_main_a_table_holds_nothing_but_keeps_its_snapshots() -> None:
    for version, nothing in ((2, -1), (3, None)):
        base = apply(append(table(2), 1), update("upgrade-format-version", format_version=version))
        metadata = apply(base, update("remove-snapshot-ref", ref_name="main"))
        assert (metadata["current-snapshot-id"], metadata["refs"]) == (nothing, {})
        assert metadata["snapshots"] == base["snapshots"]
        assert log(metadata) == logged(1)


def test_removed_snapshots_take_their_refs_and_statistics_along() -> None:
    base = apply(append(table(), 1, 2, 3), point(1, "old", "tag"), point(2, "kept", "tag"))
    base = apply(base, *statistics(1), *statistics(3))
    metadata = apply(base, remove(1, 77))
    assert metadata["snapshots"] == [snapshot(2, 1), snapshot(3, 2)]  # parents stay as they were
    assert isinstance(metadata["refs"], dict)
    assert metadata["refs"].keys() == {"main", "kept"}
    assert metadata["statistics"] == metadata["partition-statistics"] == [file_of(3)]


@pytest.mark.parametrize(
    ("removed_ids", "remaining_ids"),
    [([1], [2, 3, 4]), ([2], [3, 4]), ([1, 2], [3, 4]), ([3], [4]), ([1, 3], [4])],
)
def test_the_log_before_a_removed_snapshot_is_dropped(
    removed_ids: Sequence[int], remaining_ids: Sequence[int]
) -> None:
    metadata = apply(append(table(), 1, 2, 3, 4), remove(*removed_ids))
    assert log(metadata) == logged(*remaining_ids)


def test_removing_the_current_snapshot_removes_main() -> None:
    metadata = apply(append(table(), 1, 2), remove(2))
    assert (metadata["current-snapshot-id"], metadata["refs"]) == (-1, {})
    assert log(metadata) == []


def test_a_table_without_a_log_can_forget_snapshots() -> None:
    base: Metadata = {**append(table(), 1, 2), "snapshot-log": []}
    metadata = apply(base, remove(1))
    assert log(metadata) == []
    assert metadata["current-snapshot-id"] == 2


def test_a_snapshot_can_be_added_and_removed_in_one_commit() -> None:
    base = append(table(), 1)
    metadata = apply(base, add(2, 1), point(2), remove(2), point(1))
    assert metadata["snapshots"] == base["snapshots"]
    assert (metadata["current-snapshot-id"], metadata["last-sequence-number"]) == (1, 2)


MINUTE_MS = 60_000


def test_a_log_that_would_run_backwards_is_refused() -> None:
    late_ms = CREATED_MS + 10 * MINUTE_MS
    base = apply(table(), add(1, **{"timestamp-ms": late_ms}), point(1), now_ms=late_ms)
    apply(base, add(2, 1, **{"timestamp-ms": CREATED_MS + 9 * MINUTE_MS}), point(2))
    with pytest.raises(Invalid, match="more than a minute before"):
        apply(base, add(2, 1, **{"timestamp-ms": CREATED_MS + 9 * MINUTE_MS - 1}), point(2))


def test_a_snapshot_from_the_future_is_refused() -> None:
    apply(table(), add(1, **{"timestamp-ms": CREATED_MS + MINUTE_MS}), point(1), now_ms=CREATED_MS)
    with pytest.raises(Invalid, match="before last snapshot log entry"):
        apply(
            table(),
            add(1, **{"timestamp-ms": CREATED_MS + MINUTE_MS + 1}),
            point(1),
            now_ms=CREATED_MS,
        )


def test_statistics_are_one_file_of_each_kind_for_a_snapshot() -> None:
    base = append(table(), 1, 2)
    metadata = apply(base, *statistics(1), *statistics(2), *statistics(1, 50))
    for key in ("statistics", "partition-statistics"):
        assert metadata[key] == [file_of(2), file_of(1, 50)]
    assert apply(metadata, *statistics(2)) is metadata
    remaining = apply(metadata, update("remove-statistics", snapshot_id=1))
    assert remaining["statistics"] == [file_of(2)]
    assert remaining["partition-statistics"] == metadata["partition-statistics"]
    remaining = apply(metadata, update("remove-partition-statistics", snapshot_id=2))
    assert remaining["partition-statistics"] == [file_of(1, 50)]
    assert remaining["statistics"] == metadata["statistics"]
