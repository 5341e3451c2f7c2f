"""Where a table may be, and what it may name: the rules against tricks, and for what engines send."""

import random
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arco.core.errors import Invalid
from arco.core.json import Json
from arco.iceberg.location import PATHS, Locations, TableLocation
from tests.figures import Figure
from tests.iceberg.hostile_locations import ALLOWED, OTHER, OWN, ROOT, leads_astray
from tests.iceberg.hostile_locations import location as hostile

HOSTILE = 10_000

LOCATIONS = Locations(ROOT, ALLOWED)
TABLE = LOCATIONS.managed(OWN)
EXTERNAL = "s3://ext/sales/orders"


def placed(location: str) -> TableLocation:
    return LOCATIONS.table_location(location, table_id=OWN)


def set_location(location: Json) -> dict[str, Json]:
    return {"action": "set-location", "location": location}


def test_a_table_that_asks_for_nothing_lies_under_its_id() -> None:
    assert LOCATIONS.managed(OWN) == f"{ROOT}warehouse/{OWN}"
    assert placed(TABLE) == TableLocation(TABLE, f"warehouse/{OWN}/", managed=True)
    assert placed(TABLE + "/") == placed(TABLE)


@pytest.mark.parametrize(
    ("location", "stored"),
    [
        ("s3://ext/sales/orders", "s3://ext/sales/orders/"),
        ("s3://ext/sales", "s3://ext/sales/"),
        ("s3a://ext/sales/orders", "s3://ext/sales/orders/"),
        ("S3N://ext/sales/orders", "s3://ext/sales/orders/"),
        ("s3://ext/sales/a b/ü", "s3://ext/sales/a b/ü/"),
        ("s3://ext/sales/a%20b", "s3://ext/sales/a%20b/"),
        ("file:///data/ext/t", "file:///data/ext/t/"),
        ("file:/data/ext/t", "file:///data/ext/t/"),
        ("/data/ext/t", "file:///data/ext/t/"),
        ("s3://lake/elsewhere/t", "s3://lake/elsewhere/t/"),
        ("s3://lake/arcology/t", "s3://lake/arcology/t/"),
    ],
)
def test_a_declared_place_is_kept_in_one_spelling_and_shown_as_it_was_given(
    location: str, stored: str
) -> None:
    assert placed(location) == TableLocation(location, stored, managed=False)
    assert placed(location + "//") == TableLocation(location, stored, managed=False)


@pytest.mark.parametrize(
    "location",
    [
        "s3://ext/sales2/orders",
        "s3://ext/salesorders",
        "s3://ext/",
        "s3://EXT/sales/orders",
        "s3://other/sales/orders",
        "gs://ext/sales/orders",
        "s3://ext/%73ales/orders",
        "file:///data/ext2/t",
        "file:///DATA/ext/t",
        "file:data/ext/t",
        "data/ext/t",
        "//data/ext/t",
        "file://localhost/data/ext/t",
        "http://169.254.169.254/latest/meta-data",
        "gopher://ext/sales",
        "s3://user@ext/sales/orders",
        "https://s3.amazonaws.com/ext/sales",
        "memory://ext/sales/",
        "",
    ],
)
def test_what_was_not_declared_is_refused(location: str) -> None:
    with pytest.raises(Invalid):
        placed(location)


@pytest.mark.parametrize(
    "location",
    [
        f"{ROOT}warehouse/{OTHER}",
        f"{ROOT}warehouse/{OWN}x",
        f"{ROOT}warehouse/{OWN}/metadata",
        f"{ROOT}warehouse",
        f"{ROOT}_catalog/iceberg_pointers/{OWN}",
        ROOT,
        "s3://lake",
        "s3://lake/arco/tenant=other/workspace=default/warehouse/" + OWN,
        "s3a://lake/arco/tenant=default/workspace=default/ledger",
        "s3://lake/ARCO/t",
        "s3://lake/%61rco/t",
        "s3://lake/%2561rco/t",
        f"{ROOT}warehouse/{OTHER}/../{OWN}",
        f"{ROOT}warehouse/{OWN}/%2e%2e/{OTHER}",
        f"{ROOT}warehouse/{OWN}%2f..%2f{OTHER}",
        f"{ROOT}warehouse//{OWN}",
    ],
)
def test_in_our_root_a_table_has_its_own_folder_alone_although_the_bucket_was_declared(
    location: str,
) -> None:
    if location == "s3://lake/ARCO/t":  # a bucket knows capitals: this is another place
        assert not placed(location).managed
        return
    with pytest.raises(Invalid):
        placed(location)


def test_on_a_case_insensitive_disk_the_root_is_still_protected() -> None:
    locations = Locations("file:///srv/Arco/tenant=default/workspace=default/", ["file:///srv/"])
    for location in ("file:///srv/arco/t", "file:/srv/ARCO/tenant=x/t", "/srv/arco"):
        with pytest.raises(Invalid, match="reserved for Arco"):
            locations.table_location(location, table_id=OWN)
    assert (
        locations.table_location("/srv/arcology/t", table_id=OWN).stored
        == "file:///srv/arcology/t/"
    )


def test_a_root_with_a_space_is_spelled_as_engines_take_it() -> None:
    root = "file:///srv/my arco/tenant=default/workspace=default/"
    locations = Locations(root, ())
    assert locations.managed(OWN) == f"{root}warehouse/{OWN}"
    slashes = locations.managed(OWN).replace("file:///", "file:/")
    assert locations.table_location(slashes, table_id=OWN).stored == f"warehouse/{OWN}/"
    with pytest.raises(Invalid):
        locations.table_location(locations.managed(OWN).replace(" ", "%20"), table_id=OWN)


def test_a_workspace_in_memory_has_tables_too() -> None:
    locations = Locations("memory://tenant=default/workspace=default/", ())
    assert locations.table_location(locations.managed(OWN), table_id=OWN).managed
    for location in ("memory://tenant=other/x", locations.managed(OTHER), locations.managed("..")):
        with pytest.raises(Invalid):
            locations.table_location(location, table_id=OWN)


def test_the_folder_of_a_staged_or_dropped_table_is_open_to_who_has_its_id() -> None:
    other = LOCATIONS.managed(OTHER)
    table_location = LOCATIONS.table_location(
        other, table_id=OWN, extra_owner_ids=frozenset({OTHER})
    )
    assert table_location == TableLocation(other, f"warehouse/{OTHER}/", managed=True)
    file = f"{other}/metadata/00003-x.metadata.json"
    assert LOCATIONS.owner(file) == OTHER
    assert LOCATIONS.owner(f"{EXTERNAL}/metadata/v3.metadata.json") is None
    for refused in (f"{ROOT}_catalog/x.json", "s3://other/x.json", "http://x/y.json"):
        with pytest.raises(Invalid):
            LOCATIONS.owner(refused)


@pytest.mark.parametrize("table", [TABLE, EXTERNAL])
def test_what_a_table_names_is_in_its_own_place_or_in_a_declared_one(table: str) -> None:
    for location in (f"{table}/stats/x.puffin", "s3a://ext/sales/x", "file:/data/ext/y"):
        LOCATIONS.check_inside(location, table)
    for location in (
        LOCATIONS.managed(OTHER) + "/x",
        f"{TABLE}2/x",
        f"{TABLE}/../{OTHER}/x",
        f"{ROOT}ledger/x",
        "s3://ext/sales2/x",
        "http://169.254.169.254/x",
    ):
        with pytest.raises(Invalid):
            LOCATIONS.check_inside(location, table)


def test_an_external_table_sends_nothing_into_our_warehouse() -> None:
    with pytest.raises(Invalid):
        LOCATIONS.check_inside(f"{TABLE}/data", EXTERNAL)


@pytest.mark.parametrize("key", ["arco.x", "ARCO.x", "Arco.Owner", " arco.x"])
def test_our_own_properties_are_neither_set_nor_removed(key: str) -> None:
    updates: list[dict[str, Json]] = [
        {"action": "set-properties", "updates": {key: "1"}},
        {"action": "set-properties", "updated": {key: "1"}},
        {"action": "remove-properties", "removals": [key]},
        {"action": "remove-properties", "removed": [key]},
    ]
    for update in updates:
        with pytest.raises(Invalid, match="reserved"):
            LOCATIONS.check_updates([update], TABLE)
    with pytest.raises(Invalid, match="reserved"):
        LOCATIONS.check_properties({key: "1"})
    LOCATIONS.check_properties(["arcoiris", "owner", "barco.x"])


def test_a_create_commit_says_where_the_table_is() -> None:
    for location in (TABLE, TABLE + "/", EXTERNAL, "file:/data/ext/t"):
        after = LOCATIONS.check_updates(
            [set_location(location)], None, is_create=True, table_id=OWN
        )
        assert after == location.rstrip("/")
    for refused in (LOCATIONS.managed(OTHER), "s3://other/t", "s3://ext/sales/../x", 7, None):
        with pytest.raises(Invalid):
            LOCATIONS.check_updates([set_location(refused)], None, is_create=True, table_id=OWN)


def test_a_table_that_is_there_stays_where_it_is() -> None:
    assert LOCATIONS.check_updates([set_location(TABLE + "/")], TABLE) == TABLE
    for elsewhere in (EXTERNAL, LOCATIONS.managed(OTHER), f"{TABLE}/deeper"):
        with pytest.raises(Invalid, match="location of a table cannot change"):
            LOCATIONS.check_updates([set_location(elsewhere)], TABLE, table_id=OWN)


def test_a_table_that_may_move_goes_to_a_declared_place_and_nowhere_else() -> None:
    assert LOCATIONS.check_updates([set_location(EXTERNAL + "/")], TABLE, may_move=True) == EXTERNAL
    for elsewhere in (LOCATIONS.managed(OTHER), "s3://other/t", ROOT):
        with pytest.raises(Invalid):
            LOCATIONS.check_updates([set_location(elsewhere)], TABLE, may_move=True, table_id=OWN)


@pytest.mark.parametrize("key", PATHS)
def test_changing_only_a_path_in_the_properties_does_not_skip_the_check(key: str) -> None:
    """What CVE-2026-42812 was about."""
    for field in ("updates", "updated"):
        for refused in (
            "s3://other/x",
            LOCATIONS.managed(OTHER),
            f"{ROOT}ledger",
            "file:///etc",
            7,
        ):
            with pytest.raises(Invalid):
                LOCATIONS.check_updates(
                    [{"action": "set-properties", field: {key: refused}}], TABLE
                )
        LOCATIONS.check_updates([{"action": "set-properties", field: {key: EXTERNAL}}], TABLE)
    with pytest.raises(Invalid):
        LOCATIONS.check_paths({key: "s3://other/x"}, EXTERNAL)
    with pytest.raises(Invalid):
        LOCATIONS.check_metadata({"properties": {key: "s3://other/x"}}, EXTERNAL)


@pytest.mark.parametrize(
    "update",
    [
        {"action": "set-statistics", "statistics": {"statistics-path": "s3://other/x"}},
        {"action": "set-statistics", "statistics": {}},
        {"action": "set-statistics"},
        {"action": "set-partition-statistics", "partition-statistics": {"statistics-path": ROOT}},
        {"action": "add-snapshot", "snapshot": {"manifest-list": "http://10.0.0.1/x.avro"}},
        {"action": "add-snapshot", "snapshot": {"manifest-list": 7}},
        {"action": "set-properties", "updates": []},
        {"action": "set-properties", "updates": {"write.metadata.compression-codec": "zstd"}},
        {"action": "remove-properties", "removals": "arco.x"},
        {"action": "remove-properties", "removals": [7]},
    ],
)
def test_updates_that_name_other_places_or_nonsense_are_refused(update: dict[str, Json]) -> None:
    with pytest.raises(Invalid):
        LOCATIONS.check_updates([update], TABLE)


def test_updates_that_stay_at_home_pass() -> None:
    updates: list[dict[str, Json]] = [
        {
            "action": "set-statistics",
            "statistics": {"statistics-path": f"{TABLE}/metadata/x.puffin"},
        },
        {
            "action": "set-partition-statistics",
            "partition-statistics": {"statistics-path": f"{TABLE}/metadata/y.parquet"},
        },
        {"action": "add-snapshot", "snapshot": {"manifest-list": f"{TABLE}/metadata/snap-1.avro"}},
        {"action": "add-snapshot", "snapshot": {"manifests": []}},
        {"action": "set-properties", "updates": {"write.data.path": f"{TABLE}/data", "x": "y"}},
        {"action": "assign-uuid", "uuid": "x"},
    ]
    assert LOCATIONS.check_updates(updates, TABLE) == TABLE
    LOCATIONS.check_metadata(
        {"statistics": [{"statistics-path": f"{TABLE}/x"}], "partition-statistics": None}, TABLE
    )


@pytest.mark.parametrize("name", ["statistics", "partition-statistics"])
def test_registered_metadata_name_no_statistics_elsewhere(name: str) -> None:
    nowhere: list[Json] = [[{"statistics-path": "s3://other/x"}], [7], {"a": 1}]
    for value in nowhere:
        with pytest.raises(Invalid):
            LOCATIONS.check_metadata({name: value}, TABLE)


def test_a_path_is_checked_against_the_place_that_the_same_commit_gives() -> None:
    paths: dict[str, Json] = {"write.data.path": f"{TABLE}/data"}
    set_paths: dict[str, Json] = {"action": "set-properties", "updates": paths}
    updates = [set_paths, set_location(EXTERNAL)]
    with pytest.raises(Invalid):
        LOCATIONS.check_updates(updates, None, is_create=True, table_id=OWN)
    LOCATIONS.check_updates(updates[:1], None, is_create=True, table_id=OWN)


def test_metadata_files_are_numbered_and_named_as_clients_expect() -> None:
    assert LOCATIONS.metadata_file(TABLE, {}, 7, "u") == f"{TABLE}/metadata/00007-u.metadata.json"
    zipped = {"write.metadata.compression-codec": "GZIP"}
    assert LOCATIONS.metadata_file(EXTERNAL + "/", zipped, 123_456, "u") == (
        f"{EXTERNAL}/metadata/123456-u.gz.metadata.json"
    )
    path = {"write.metadata.path": "s3a://ext/sales/meta/"}
    assert LOCATIONS.metadata_file(EXTERNAL, path, 0, "u") == (
        "s3a://ext/sales/meta/00000-u.metadata.json"
    )
    with pytest.raises(Invalid):
        LOCATIONS.metadata_file(TABLE, {"write.metadata.compression-codec": "snappy"}, 0, "u")


def test_in_our_warehouse_metadata_lie_in_the_one_folder_that_the_api_may_write() -> None:
    deeper = {"write.metadata.path": f"{TABLE}/metadata/deeper"}
    assert LOCATIONS.metadata_file(TABLE, deeper, 1, "u").startswith(f"{TABLE}/metadata/deeper/0")
    for folder in ("meta", "metadata2", "data", ""):
        with pytest.raises(Invalid, match=r"write\.metadata\.path"):
            LOCATIONS.check_paths({"write.metadata.path": f"{TABLE}/{folder}"}, TABLE)


def test_nothing_is_written_where_it_is_declared_no_more() -> None:
    shrunk = Locations(ROOT, ["file:///data/ext/"])
    path = {"write.metadata.path": f"{EXTERNAL}/meta"}
    assert LOCATIONS.metadata_file(TABLE, path, 1, "u")
    with pytest.raises(Invalid):
        shrunk.metadata_file(TABLE, path, 1, "u")
    with pytest.raises(Invalid):
        shrunk.check_inside(f"{EXTERNAL}/x", EXTERNAL)


def test_no_hostile_location_leads_out_of_its_place(figure: Figure) -> None:
    rng = random.Random(21)
    accepted = 0
    for _ in range(HOSTILE):
        text = hostile(rng)
        with suppress(Invalid):
            placed(text)
            accepted += 1
            assert not leads_astray(text, folders=frozenset({OWN})), text
        with suppress(Invalid):
            LOCATIONS.check_inside(text, TABLE)
            assert not leads_astray(text, folders=frozenset({OWN})), text
        with suppress(Invalid):
            if LOCATIONS.owner(text) in (OTHER, None):
                assert not leads_astray(text, folders=frozenset({OTHER})), text
    assert 0 < accepted < HOSTILE
    figure(f"locations: {HOSTILE} hostile ones, {accepted} are places of a table, 0 lead astray")


NAMES = st.text(
    st.characters(exclude_categories=("C", "Z"), exclude_characters="/\\%?#"), min_size=1
)


@given(st.lists(NAMES.filter(lambda name: name not in (".", "..")), min_size=1, max_size=5))
def test_every_plain_folder_below_a_declared_place_is_open(names: list[str]) -> None:
    path = "/".join(names)
    table_location = placed(f"s3://ext/sales/{path}/")
    assert table_location == TableLocation(
        f"s3://ext/sales/{path}", f"s3://ext/sales/{path}/", managed=False
    )
    assert placed(table_location.stored).stored == table_location.stored


@given(st.text(), st.sampled_from([*ALLOWED, TABLE + "/", ROOT, ""]))
def test_whatever_is_sent_is_answered_with_a_place_or_a_refusal(text: str, start: str) -> None:
    with suppress(Invalid):
        assert placed(start + text).stored.endswith("/")
        assert not leads_astray(start + text, folders=frozenset({OWN}))
