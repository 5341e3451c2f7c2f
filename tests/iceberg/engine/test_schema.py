import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.schema import Schema, assign_fresh_schema_ids

from arco.core.errors import Invalid
from arco.core.json import Json, encode
from arco.iceberg.engine.field_type import MAX_DEPTH, read_plain
from arco.iceberg.engine.new_table import with_fresh_ids
from arco.iceberg.engine.schema import check_version, index_schema, read_schema, schema_fingerprint
from tests.iceberg.engine.sample_metadata import column, list_of, map_of, struct

NESTED = struct(
    column(10, "id", required=True),
    column(20, "lines", list_of(21, struct(column(22, "sku", "string"), column(23, "n", "int")))),
    column(30, "tags", map_of(31, "string", 32, struct(column(33, "v", "string")))),
    column(
        40,
        "ship",
        struct(column(41, "zip", "string", required=True), column(42, "geo", struct())),
        required=True,
    ),
)


@pytest.mark.parametrize(
    ("sent", "stored"),
    [
        ("LONG", "long"),
        ("timestamptz_ns", "timestamptz_ns"),
        ("decimal( 9,2 )", "decimal(9, 2)"),
        ("Decimal(38,0)", "decimal(38, 0)"),
        ("fixed[ 16 ]", "fixed[16]"),
        ("variant", "variant"),
        ("unknown", "unknown"),
        ("geometry", "geometry"),
        ("geometry( srid:3857 )", "geometry(srid:3857)"),
        ("geography(OGC:CRS84, Karney)", "geography(OGC:CRS84, karney)"),
    ],
)
def test_a_plain_type_has_one_spelling(sent: str, stored: str) -> None:
    assert read_plain(sent) == stored
    assert read_plain(stored) == stored


@pytest.mark.parametrize(
    "text",
    ["", "bigint", "decimal(39, 2)", "decimal(9)", "fixed[]", "fixed[-1]", "geometry()",
     "geography(OGC:CRS84, flat)", "struct", "list<int>", "long "],
)  # fmt: skip
def test_a_text_that_names_no_type_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        read_plain(text)


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ([], "the schema must be an object"),
        ({}, "the schema lacks fields"),
        ({"type": "list", "fields": []}, "a schema is a struct"),
        (struct({"name": "a", "required": False, "type": "int"}), "field a lacks id"),
        (struct({"id": 1, "required": False, "type": "int"}), "lacks name"),
        (struct({"id": 1, "name": "a", "type": "int"}), "field a lacks required"),
        (struct({"id": 1, "name": "a", "required": False}), "the type of a"),
        (struct(column(1, "a", {"type": "set"})), "no nested type 'set'"),
        (struct(column(1, "a", {"type": "list", "element-id": 2})), "a.element"),
        (struct(column(2**31, "a")), "out of range"),
        (struct(column(1, "a", doc=3)), "doc of field a must be a string"),
        (struct(column(1, "a"), column(1, "b")), "multiple fields for id 1: a and b"),
        (struct(column(1, "a"), column(2, "a")), "multiple fields for name a: 1 and 2"),
        (struct(column(1, "a", "unknown", required=True)), "unknown type: a"),
        (struct(column(1, "a", list_of(2, "unknown", required=True))), "unknown type: a.element"),
        (struct(column(1, "a", map_of(2, "unknown", 3, "int"))), "unknown type: a.key"),
        (struct(column(1, "a"), **{"identifier-field-ids": 1}), "must be an array"),
        (struct(column(1, "a"), **{"schema-id": "1"}), "schema-id of the schema"),
    ],
)
def test_a_wrong_schema_is_refused_with_the_reason(schema: Json, why: str) -> None:
    with pytest.raises(Invalid, match=why):
        read_schema(schema)


@pytest.mark.parametrize(
    ("field_id", "why"),
    [
        (99, "field does not exist"),
        (20, "not a primitive type field"),
        (30, "not a primitive type field"),
        (22, "not a required field"),
    ],
)
def test_an_identifier_is_a_required_primitive_field(field_id: int, why: str) -> None:
    with pytest.raises(Invalid, match=why):
        read_schema({**NESTED, "identifier-field-ids": [field_id]})


def test_an_identifier_may_lie_in_required_structs_and_nowhere_else() -> None:
    read_schema({**NESTED, "identifier-field-ids": [41]})
    zip_code = column(3, "zip", "string", required=True)
    optional = struct(column(1, "ship", struct(zip_code)))
    with pytest.raises(Invalid, match="nested in an optional field ship"):
        read_schema({**optional, "identifier-field-ids": [3]})
    list_schema = struct(
        column(1, "ships", list_of(2, struct(zip_code), required=True), required=True)
    )
    with pytest.raises(Invalid, match="must not be nested in ships"):
        read_schema({**list_schema, "identifier-field-ids": [3]})
    for kind in ("float", "double"):
        with pytest.raises(Invalid, match="must not be float or double"):
            read_schema(
                struct(column(1, "x", kind, required=True), **{"identifier-field-ids": [1]})
            )


def test_types_may_not_be_nested_without_end() -> None:
    def nest(depth: int) -> Json:
        kind: Json = "int"
        for level in range(depth):
            kind = list_of(level + 2, kind)
        return kind

    read_schema(struct(column(1, "a", nest(MAX_DEPTH - 1))))
    with pytest.raises(Invalid, match="nested more than"):
        read_schema(struct(column(1, "a", nest(MAX_DEPTH + 1))))


def test_members_that_we_do_not_know_survive_at_every_level() -> None:
    inner = column(3, "x", "INT", vendor=[1])
    list_type: dict[str, Json] = {**list_of(2, struct(inner, colour="red")), "hint": {"a": 1}}
    schema = read_schema(struct(column(1, "l", list_type), **{"x-owner": "ada"}))
    assert schema["x-owner"] == "ada"
    kept_type: dict[str, Json] = {
        **list_type,
        "element": struct({**inner, "type": "int"}, colour="red"),
    }
    assert schema["fields"] == [column(1, "l", kept_type)]


def test_short_names_leave_out_elements_and_values_that_are_structs() -> None:
    index = index_schema(NESTED)
    sku, value = index.by_name("lines.sku"), index.by_name("tags.v")
    assert sku is not None
    assert value is not None
    assert (sku.path, value.path) == ("lines.element.sku", "tags.value.v")
    assert index.by_name("lines.element.sku") == sku
    assert index.by_name("sku") is None


@pytest.mark.parametrize(
    "kind",
    ["variant", "timestamp_ns", "timestamptz_ns", "unknown", "geometry", "geography(OGC:CRS84)"],
)
def test_a_type_of_version_3_is_refused_before_it(kind: str) -> None:
    index = index_schema(read_schema(struct(column(1, "a", struct(column(2, "data", kind))))))
    check_version(index, 3)
    for version in (1, 2):
        with pytest.raises(Invalid) as refusal:
            check_version(index, version)
        assert str(refusal.value) == (
            f"Invalid schema for v{version}:\n"
            f"- Invalid type for a.data: {kind} is not supported until v3"
        )


def test_an_initial_default_needs_version_3() -> None:
    index = index_schema(read_schema(struct(column(1, "a", "int", **{"initial-default": 7}))))
    check_version(index, 3)
    with pytest.raises(Invalid, match=r"Invalid initial default for a: non-null default \(7\)"):
        check_version(index, 2)


def test_schemas_are_the_same_whatever_their_id_and_spelling() -> None:
    one = struct(
        column(1, "a", "decimal(9,2)", doc=None), column(2, "g", "geometry"), **{"schema-id": 4}
    )
    other = struct(
        column(1, "a", "DECIMAL(9, 2)", vendor=1),
        column(2, "g", "geometry(ogc:crs84)"),
        **{"schema-id": 0},
    )
    assert schema_fingerprint(read_schema(one)) == schema_fingerprint(read_schema(other))


@pytest.mark.parametrize(
    "changed",
    [
        struct(column(1, "b")),
        struct(column(2, "a")),
        struct(column(1, "a", "int")),
        struct(column(1, "a", required=True)),
        struct(column(1, "a", doc="x")),
        struct(column(1, "a", **{"write-default": 1})),
        struct(column(1, "a"), column(2, "b")),
        struct(column(1, "a", required=True), **{"identifier-field-ids": [1]}),
        struct(),
    ],
)
def test_schemas_that_mean_something_else_are_not_the_same(changed: dict[str, Json]) -> None:
    one = struct(column(1, "a"))
    mark = schema_fingerprint(read_schema(one))
    assert mark == schema_fingerprint(read_schema(struct(column(1, "a"))))
    assert mark != schema_fingerprint(read_schema(changed))


def test_true_and_1_are_different_defaults() -> None:
    one = {**struct(column(1, "a", "long", **{"write-default": 1}))}
    other = {**struct(column(1, "a", "long", **{"write-default": True}))}
    assert schema_fingerprint(one) != schema_fingerprint(other)


def test_fresh_ids_number_a_level_before_the_next() -> None:
    fresh = with_fresh_ids(
        read_schema({**NESTED, "identifier-field-ids": [41, 10], "schema-id": 9})
    )
    assert fresh == struct(
        column(1, "id", required=True),
        column(2, "lines", list_of(5, struct(column(6, "sku", "string"), column(7, "n", "int")))),
        column(3, "tags", map_of(8, "string", 9, struct(column(10, "v", "string")))),
        column(
            4,
            "ship",
            struct(column(11, "zip", "string", required=True), column(12, "geo", struct())),
            required=True,
        ),
        **{"schema-id": 0, "identifier-field-ids": [1, 11]},
    )


PRIMITIVES = st.sampled_from(["int", "long", "string", "date", "decimal(9, 2)", "fixed[3]", "uuid"])


@st.composite
def schemas(draw: st.DrawFn) -> dict[str, Json]:
    """Any schema with ids in no order at all."""
    unused_ids = draw(st.permutations(list(range(1, 60))))

    def kind(depth: int) -> Json:
        shape = draw(st.sampled_from(["plain", "struct", "list", "map"])) if depth < 3 else "plain"
        if shape == "struct":
            return struct(*fields(depth + 1))
        if shape == "list":
            return list_of(unused_ids.pop(), kind(depth + 1))
        if shape == "map":
            return map_of(unused_ids.pop(), kind(depth + 1), unused_ids.pop(), kind(depth + 1))
        return draw(PRIMITIVES)

    def fields(depth: int) -> list[dict[str, Json]]:
        return [
            column(unused_ids.pop(), f"f{number}", kind(depth), required=draw(st.booleans()))
            for number in range(draw(st.integers(1, 3 - depth // 2)))
        ]

    return struct(*fields(0))


@given(schemas())
def test_fresh_ids_are_those_that_pyiceberg_gives(sent: dict[str, Json]) -> None:
    schema = read_schema(sent)
    theirs = assign_fresh_schema_ids(Schema.model_validate(schema))
    ours = Schema.model_validate(with_fresh_ids(schema))
    assert ours == theirs
    assert index_schema(with_fresh_ids(schema)).highest == theirs.highest_field_id


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("boolean", True), ("int", -5), ("long", 2**40), ("float", 1.5), ("double", 2.0),
        ("string", ""), ("decimal(9, 2)", "14.20"), ("decimal(9, 0)", "-3"),
        ("uuid", "f79c3e09-677c-4bbd-a479-3f349cb785e7"), ("date", "2007-12-03"),
        ("time", "10:15:30.123456"), ("time", "10:15"), ("timestamp", "2007-12-03T10:15:30.1"),
        ("timestamptz", "2007-12-03T10:15:30+00:00"), ("timestamptz", "2007-12-03T10:15:30Z"),
        ("timestamp_ns", "2007-12-03T10:15:30.123456789"), ("fixed[2]", "00fF"),
        ("timestamptz_ns", "2007-12-03T10:15:30.123456789+00:00"), ("binary", "78797a"),
    ],
)  # fmt: skip
def test_a_default_of_the_right_kind_is_kept(kind: str, value: Json) -> None:
    field = column(1, "a", kind, **{"write-default": value})
    assert read_schema(struct(field))["fields"] == [field]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("boolean", 1), ("int", True), ("int", 2**31), ("int", "1"), ("long", 1.0), ("long", 2**63),
        ("float", "1"), ("double", False), ("string", 1), ("decimal(9, 2)", "14.2"),
        ("decimal(9, 2)", 14.2), ("decimal(9, 2)", "NaN"), ("uuid", "f79c"), ("date", "2007-13-03"),
        ("date", "20071203"), ("date", 5), ("time", "25:00"), ("timestamp", "2007-12-03 10:15:30"),
        ("timestamp", "2007-12-03T10:15:30Z"), ("timestamptz", "2007-12-03T10:15:30"),
        ("timestamptz", "2007-12-03T10:15:30+02:00"), ("timestamptz", "2007-12-03"),
        ("fixed[2]", "00f"), ("fixed[2]", "00ff00"), ("binary", "0"), ("binary", "zz"),
        ("variant", {}), ("unknown", 0), ("geometry", "POINT (1 2)"), (struct(), {}),
    ],
)  # fmt: skip
def test_a_default_of_the_wrong_kind_is_refused(kind: Json, value: Json) -> None:
    with pytest.raises(Invalid):
        read_schema(struct(column(1, "a", kind, **{"initial-default": value})))


def test_a_default_is_stored_as_readers_expect_it() -> None:
    schema = struct(
        column(1, "a", "double", doc=None, **{"initial-default": 7, "write-default": None})
    )
    assert b'"initial-default":7.0' in encode(read_schema(schema))
    assert read_schema(schema)["fields"] == [column(1, "a", "double", **{"initial-default": 7.0})]
