import pytest

from arco.core.errors import Invalid
from arco.core.json import Json
from arco.iceberg.engine.metadata import Metadata
from tests.iceberg.engine.sample_metadata import (
    CREATED_MS,
    LOCATION,
    ORDERS,
    OTHER_UUID,
    UUID,
    add,
    append,
    apply,
    create_updates,
    order,
    partition,
    point,
    spec,
    table,
    update,
)


def test_all_unknown_updates_are_named_at_once_and_nothing_is_done() -> None:
    unknown = [
        update("paint"),
        update("set-location", location=LOCATION),
        update("add-view-version"),
    ]
    with pytest.raises(Invalid, match=r"unknown updates of a table: add-view-version, paint$"):
        apply(table(), *unknown)


@pytest.mark.parametrize(
    "nothing",
    [
        [],
        [update("assign-uuid", uuid=UUID)],
        [update("upgrade-format-version", format_version=2)],
        [update("set-location", location=f"{LOCATION}//")],
        [update("set-properties", updates={})],
        [update("set-properties", updates={"write.parquet.compression-codec": "zstd"})],
        [update("remove-properties", removals=["nope"])],
        [update("add-schema", schema=ORDERS), update("set-current-schema", schema_id=-1)],
        [update("add-spec", spec=spec()), update("set-default-spec", spec_id=-1)],
        [update("add-sort-order", sort_order=order()), update("set-default-sort-order", sort_order_id=0)],
        [update("remove-snapshots", snapshot_ids=[77])],
        [update("remove-snapshot-ref", ref_name="nope")],
        [update("remove-statistics", snapshot_id=77)],
        [update("remove-partition-statistics", snapshot_id=77)],
        [update("remove-partition-specs", spec_ids=[9])],
        [update("remove-schemas", schema_ids=[])],
        [update("remove-encryption-key", key_id="nope")],
        [point(2)],
    ],
)  # fmt: skip
def test_a_commit_that_changes_nothing_returns_the_base_itself(nothing: list[Json]) -> None:
    base = append(table(), 1, 2)
    assert apply(base, *nothing, now_ms=CREATED_MS + 99, file="f") is base


def test_a_commit_logs_the_file_before_it_and_its_time() -> None:
    base = table()
    one = apply(
        base, update("set-properties", updates={"a": "1"}), now_ms=CREATED_MS + 5, file="f0"
    )
    assert one["last-updated-ms"] == CREATED_MS + 5
    assert one["metadata-log"] == [{"timestamp-ms": CREATED_MS, "metadata-file": "f0"}]
    two = apply(one, update("set-properties", updates={"a": "2"}), now_ms=CREATED_MS + 9, file="f1")
    assert two["metadata-log"] == [
        {"timestamp-ms": CREATED_MS, "metadata-file": "f0"},
        {"timestamp-ms": CREATED_MS + 5, "metadata-file": "f1"},
    ]


def test_the_time_of_a_commit_is_never_before_that_of_its_base() -> None:
    later_metadata = apply(
        table(), update("set-properties", updates={"a": "1"}), now_ms=CREATED_MS - 10**6
    )
    assert later_metadata["last-updated-ms"] == CREATED_MS


@pytest.mark.parametrize(
    ("most", "kept_files"), [("3", 3), ("1", 1), ("0", 1), ("-5", 1), (None, 100)]
)
def test_the_log_of_files_is_kept_short(most: str | None, kept_files: int) -> None:
    limits = {} if most is None else {"write.metadata.previous-versions-max": most}
    metadata = table(properties=limits)
    for number in range(105):
        metadata = apply(
            metadata, update("set-properties", updates={"n": str(number)}), file=f"f{number}"
        )
    log = metadata["metadata-log"]
    assert isinstance(log, list)
    names = [entry["metadata-file"] for entry in log if isinstance(entry, dict)]
    assert names == [f"f{number}" for number in range(105 - kept_files, 105)]


def test_a_nonsense_limit_of_the_log_is_refused_and_one_that_is_there_does_no_harm() -> None:
    nonsense = {"write.metadata.previous-versions-max": "many"}
    with pytest.raises(Invalid, match="integer value"):
        apply(table(), update("set-properties", updates={**nonsense}))
    old: Metadata = {**table(), "properties": {**nonsense}}
    assert apply(old, update("set-properties", updates={"a": "1"}), file="f")["metadata-log"] != []


def test_assign_uuid_sets_or_replaces_the_uuid() -> None:
    assert apply(table(), update("assign-uuid", uuid=OTHER_UUID))["table-uuid"] == OTHER_UUID
    with pytest.raises(Invalid, match="no UUID: orders"):
        apply(table(), update("assign-uuid", uuid="orders"))


def test_upgrade_goes_from_1_to_3_and_never_back() -> None:
    one = append(table(1, partition_spec=spec(partition(3, "country"))))
    two = apply(one, update("upgrade-format-version", format_version=2))
    assert two["last-sequence-number"] == 0
    assert "schema" not in two
    assert "partition-spec" not in two
    three = apply(two, update("upgrade-format-version", format_version=3))
    assert (three["next-row-id"], three["current-snapshot-id"]) == (0, None)
    straight = apply(one, update("upgrade-format-version", format_version=3))
    assert straight == {**three, "last-updated-ms": straight["last-updated-ms"]}
    for version, why in (
        (2, "Cannot downgrade v3 table to v2"),
        (4, "unsupported format version: v4"),
        (0, "v0"),
    ):
        with pytest.raises(Invalid, match=why):
            apply(three, update("upgrade-format-version", format_version=version))


def test_an_upgrade_keeps_snapshots() -> None:
    base = append(table(2), 1, 2)
    upgraded = apply(base, update("upgrade-format-version", format_version=3))
    assert upgraded["snapshots"] == base["snapshots"]
    assert upgraded["current-snapshot-id"] == 2
    assert upgraded["last-sequence-number"] == 2


def test_set_location_strips_slashes_at_the_end() -> None:
    assert apply(table(), update("set-location", location="s3://b/x//"))["location"] == "s3://b/x"
    assert apply(table(), update("set-location", location="file:///"))["location"] == "file://"
    with pytest.raises(Invalid, match="must not be empty"):
        apply(table(), update("set-location", location="/"))


def test_properties_are_set_and_removed_in_both_spellings() -> None:
    base = table(properties={"a": "1", "b": "2"})
    for key in ("updates", "updated"):
        metadata = apply(base, update("set-properties", **{key: {"a": "9", "c": "3"}}))
        assert {"a": "9", "b": "2", "c": "3"}.items() <= dict(metadata["properties"]).items()  # type: ignore[arg-type]
    for key in ("removals", "removed"):
        remaining = apply(base, update("remove-properties", **{key: ["a", "nope"]}))["properties"]
        assert remaining == {"b": "2", "write.parquet.compression-codec": "zstd"}


KEY: dict[str, Json] = {"key-id": "k1", "encrypted-key-metadata": "aGVsbG8=", "x": 1}


def test_encryption_keys_come_and_go_in_version_3() -> None:
    added = apply(
        table(3), update("add-encryption-key", encryption_key={**KEY, "encrypted-by-id": None})
    )
    assert added["encryption-keys"] == [KEY]
    repeated_update = update(
        "add-encryption-key", encryption_key={**KEY, "encrypted-key-metadata": ""}
    )
    assert apply(added, repeated_update) is added
    two = apply(added, update("add-encryption-key", encryption_key={**KEY, "key-id": "k2"}))
    assert apply(two, update("remove-encryption-key", key_id="k1"))["encryption-keys"] == [
        {**KEY, "key-id": "k2"}
    ]
    assert "encryption-keys" not in apply(added, update("remove-encryption-key", key_id="k1"))
    with pytest.raises(Invalid, match="not supported until v3"):
        apply(table(2), update("add-encryption-key", encryption_key=KEY))
    with pytest.raises(Invalid, match="base64"):
        apply(
            table(3),
            update("add-encryption-key", encryption_key={**KEY, "encrypted-key-metadata": "*"}),
        )


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_create_commit_makes_what_its_updates_say(version: int) -> None:
    metadata = apply(None, *create_updates(version=version), now_ms=CREATED_MS, file="ignored")
    assert metadata == {**table(version), "properties": {"owner": "ada"}, "metadata-log": []}


@pytest.mark.parametrize(
    ("left_out", "why"),
    [
        (["assign-uuid"], "table-uuid"),
        (["set-location"], "location"),
        (["add-schema", "set-current-schema"], "no schema yet"),
        (["add-spec", "set-default-spec"], "default partition spec"),
        (["add-sort-order", "set-default-sort-order"], "default sort order"),
    ],
)
def test_a_create_commit_that_leaves_something_out_is_refused(
    left_out: list[str], why: str
) -> None:
    kept_entries = [
        each
        for each in create_updates()
        if isinstance(each, dict) and each["action"] not in left_out
    ]
    with pytest.raises(Invalid, match=why):
        apply(None, *kept_entries)


def test_a_create_commit_may_bring_its_first_snapshot() -> None:
    metadata = apply(None, *create_updates(), add(1), point(1), now_ms=CREATED_MS + 1)
    assert (metadata["current-snapshot-id"], metadata["last-sequence-number"]) == (1, 1)
    with pytest.raises(Invalid, match="before a schema is added"):
        apply(None, add(1), *create_updates())
