import copy

import pytest
from hypothesis import given
from pyiceberg.view.metadata import ViewMetadata

from arco.core.errors import Invalid
from arco.core.json import Json
from arco.iceberg.engine.columns import columns_of
from arco.iceberg.engine.metadata import Metadata, encode_metadata
from arco.iceberg.engine.shape import Object
from arco.iceberg.engine.view_metadata import check_view, new_view, view_facts
from arco.iceberg.wire import CreateViewRequest
from tests.iceberg.engine.test_columns import field, schema, with_holes

UUID = "f79c3e09-677c-4bbd-a479-3f349cb785e7"
LOCATION = "s3://warehouse/db/view"
SCHEMA = schema(field(1, "id", "long"), field(2, "data", "string"))


def sql(text: str = "select 1", dialect: str = "spark") -> Object:
    return {"type": "sql", "sql": text, "dialect": dialect}


def version(
    *queries: Json, number: int = 1, schema_id: int = 0, more: Object | None = None
) -> Object:
    return {
        "version-id": number,
        "timestamp-ms": 1_000,
        "schema-id": schema_id,
        "summary": {"engine-name": "spark"},
        "default-namespace": ["db"],
        "representations": list(queries) or [sql()],
        **(more or {}),
    }


def view(
    view_version: Object | None = None,
    properties: dict[str, str] | None = None,
    shown: Object = SCHEMA,
) -> Metadata:
    request = CreateViewRequest(
        name="v",
        schema=shown,
        view_version=version() if view_version is None else view_version,
        properties=properties or {},
    )
    return new_view(request, view_uuid=UUID, location=LOCATION, now_ms=5_000)


def test_a_new_view_has_one_schema_and_one_version_with_numbers_of_ours() -> None:
    sent = version(number=7, schema_id=9, more={"default-catalog": None, "x-more": [1]})
    theirs: Object = {**SCHEMA, "schema-id": 9}
    view_metadata = view(sent, {"comment": "c"}, theirs)
    assert view_metadata == {
        "view-uuid": UUID,
        "format-version": 1,
        "location": LOCATION,
        "properties": {"comment": "c"},
        "schemas": [SCHEMA],
        "current-version-id": 1,
        "versions": [version(more={"timestamp-ms": 5_000, "x-more": [1]})],
        "version-log": [{"timestamp-ms": 5_000, "version-id": 1}],
    }
    assert list(view_metadata)[:3] == ["view-uuid", "format-version", "location"]
    assert check_view(view_metadata) is view_metadata


def test_the_facts_of_a_view_are_those_of_its_current_version() -> None:
    facts = view_facts(view(properties={"k": "v"}))
    assert (facts.view_uuid, facts.location, facts.version_id) == (UUID, LOCATION, 1)
    assert facts.properties == {"k": "v"}
    assert [column.data_type for column in columns_of(facts.schema)] == ["bigint", "string"]
    assert view_facts({**view(), "properties": None}).properties == {}


def test_another_implementation_reads_what_we_write() -> None:
    view_metadata = view(version(sql(), sql("select 2", "trino")), {"comment": "c"})
    theirs = ViewMetadata.model_validate_json(encode_metadata(view_metadata))
    assert theirs.current_version_id == 1
    assert [each.root.dialect for each in theirs.versions[0].representations] == ["spark", "trino"]


def test_two_queries_in_one_dialect_are_refused_whatever_their_case() -> None:
    with pytest.raises(Invalid) as problem:
        view(version(sql("select 1", "trino"), sql("select 2", "TRINO")))
    assert str(problem.value) == (
        "Invalid view version: Cannot add multiple queries for dialect trino"
    )


def test_kinds_of_representation_that_we_do_not_know_are_kept() -> None:
    other: Object = {"type": "plan", "bytes": "AA=="}
    view_metadata = view(version(sql(), other, other))
    assert view_metadata["versions"] == [version(sql(), other, other, more={"timestamp-ms": 5_000})]


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"representations": []}, "no representation"),
        ({"representations": None}, "must be an array"),
        ({"representations": [{"sql": "select 1"}]}, "lacks type"),
        ({"representations": [{"type": "SQL", "dialect": "spark"}]}, "lacks sql"),
        ({"representations": [sql("select 1", "")]}, "Invalid dialect"),
        ({"summary": {"a": 1}}, "must be a string"),
        ({"summary": None}, "summary of the view version"),
        ({"default-namespace": "db"}, "must be an array"),
        ({"default-namespace": [1]}, "must be a string"),
        ({"default-catalog": 1}, "must be a string"),
    ],
)
def test_a_version_of_the_wrong_shape_is_refused(more: Object, reason: str) -> None:
    with pytest.raises(Invalid, match=reason):
        view(version(more=more))


def test_reserved_properties_cannot_be_set() -> None:
    with pytest.raises(Invalid, match=r"'Arco\.id' is reserved"):
        view(properties={"Arco.id": "1"})


def test_a_schema_that_the_catalog_cannot_list_is_refused() -> None:
    with pytest.raises(Invalid, match="lacks fields"):
        view(shown={"type": "struct"})
    with pytest.raises(Invalid, match="two columns"):
        view(shown=schema(field(1, "a", "int"), field(1, "b", "int")))


def test_a_view_is_somewhere() -> None:
    request = CreateViewRequest(name="v", schema=SCHEMA, view_version=version())
    with pytest.raises(Invalid, match="location of a view is empty"):
        new_view(request, view_uuid=UUID, location="", now_ms=1)


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"format-version": 2}, "Unsupported format version: 2"),
        ({"view-uuid": None}, "must be a string"),
        ({"location": ""}, "one of them is empty"),
        ({"current-version-id": 2}, "current version of the view is 2, which is not there"),
        ({"schemas": []}, "schema 0, which is not there"),
        ({"schemas": [SCHEMA, SCHEMA]}, "two schemas of the view have the same number"),
        ({"schemas": [{**SCHEMA, "schema-id": -1}]}, "negative"),
        ({"versions": [version(), version()]}, "two versions of the view have the same number"),
        ({"versions": [version(number=-1)]}, "negative"),
        ({"versions": [version(sql(), sql())]}, "multiple queries"),
        ({"version-log": [{"version-id": 1}]}, "lacks timestamp-ms"),
        ({"version-log": None}, "must be an array"),
        ({"properties": {"a": 1}}, "must be a string"),
    ],
)
def test_a_file_that_is_no_valid_view_is_refused_with_the_reason(more: Object, reason: str) -> None:
    with pytest.raises(Invalid, match=reason):
        check_view({**view(), **more})


def test_a_view_from_another_catalog_keeps_its_unknown_members() -> None:
    theirs: Metadata = {**view(), "x-own": {"deep": [1]}}
    before = copy.deepcopy(theirs)
    assert check_view(theirs) == before


@given(with_holes({**view(properties={"a": "b"}), "x": None}))
def test_wrong_metadata_are_refused_and_nothing_else_happens(damaged_metadata: Json) -> None:
    if not isinstance(damaged_metadata, dict):
        return
    try:
        check_view(damaged_metadata)
    except Invalid:
        return
    view_facts(damaged_metadata)


@given(with_holes(version()), with_holes(SCHEMA))
def test_a_wrong_request_is_refused_and_nothing_else_happens(sent: Json, shown: Json) -> None:
    if not isinstance(sent, dict) or not isinstance(shown, dict):
        return
    request = CreateViewRequest(name="v", schema=shown, view_version=sent)
    try:
        metadata = new_view(request, view_uuid=UUID, location=LOCATION, now_ms=1)
    except Invalid:
        return
    check_view(metadata)
