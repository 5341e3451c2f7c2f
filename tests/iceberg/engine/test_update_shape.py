import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from arco.core.errors import Conflict, Invalid
from arco.core.json import Json
from arco.iceberg.engine.update import _UPDATES
from tests.iceberg.engine.sample_metadata import (
    OTHER_UUID,
    add,
    append,
    apply,
    column,
    order,
    partition,
    point,
    sort,
    spec,
    struct,
    table,
    update,
)
from tests.iceberg.engine.test_requirement import JUNK

KEY: dict[str, Json] = {"key-id": "k1", "encrypted-key-metadata": "aGVsbG8=", "x": 1}

STATISTICS: dict[str, Json] = {
    "snapshot-id": 2,
    "statistics-path": "s",
    "file-size-in-bytes": 1,
    "file-footer-size-in-bytes": 1,
    "blob-metadata": [
        {
            "type": "t",
            "snapshot-id": 2,
            "sequence-number": 2,
            "fields": [1],
            "properties": {"a": "b"},
        }
    ],
}

EXAMPLES: list[dict[str, Json]] = [
    update("assign-uuid", uuid=OTHER_UUID),
    update("upgrade-format-version", format_version=3),
    update(
        "add-schema", schema=struct(column(1, "id"), column(4, "n", struct(column(5, "m", "int"))))
    ),
    update("set-current-schema", schema_id=0),
    update("add-spec", spec=spec(partition(2, "d", "day", **{"field-id": 1000}))),
    update("set-default-spec", spec_id=0),
    update("add-sort-order", sort_order=order(sort(1))),
    update("set-default-sort-order", sort_order_id=0),
    add(3, 2),
    point(1, "audit", min_snapshots_to_keep=3, max_snapshot_age_ms=4, max_ref_age_ms=5),
    update("remove-snapshots", snapshot_ids=[1]),
    update("remove-snapshot-ref", ref_name="main"),
    update("set-location", location="s3://b/elsewhere"),
    update("set-properties", updates={"a": "1"}),
    update("remove-properties", removals=["a"]),
    update("set-statistics", statistics=STATISTICS),
    update("remove-statistics", snapshot_id=2),
    update("set-partition-statistics", partition_statistics=STATISTICS),
    update("remove-partition-statistics", snapshot_id=2),
    update("remove-partition-specs", spec_ids=[3]),
    update("remove-schemas", schema_ids=[3]),
    update("add-encryption-key", encryption_key=KEY),
    update("remove-encryption-key", key_id="k"),
]


def test_there_are_23_updates() -> None:
    assert len(_UPDATES) == 23
    assert {str(each["action"]) for each in EXAMPLES} == _UPDATES.keys()


def _places(value: Json, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """The path of every member of `value`, however deep."""
    inner = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    return [path] + [each for key, below in inner for each in _places(below, (*path, key))]


BASE = append(table(properties={"a": "1"}), 1, 2)


@given(st.sampled_from(EXAMPLES), st.data())
def test_an_update_of_the_wrong_shape_is_invalid_and_never_a_crash(
    good: dict[str, Json], data: st.DataObject
) -> None:
    path = data.draw(st.sampled_from(_places(good)))
    bad: list[Json] = [copy.deepcopy(good)]
    inside: Any = bad
    for key in (0, *path)[:-1]:
        inside = inside[key]
    last_key = (0, *path)[-1]
    if data.draw(st.booleans()):
        inside[last_key] = data.draw(JUNK)
    else:
        del inside[last_key]
    before = copy.deepcopy(BASE)
    try:
        apply(BASE, *bad)
    except (Invalid, Conflict) as refusal:
        assert str(refusal)
    assert before == BASE
