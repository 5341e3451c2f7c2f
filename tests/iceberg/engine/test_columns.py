import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.schema import Schema, assign_fresh_schema_ids

from arco.catalog.data_type import MAX_CHARACTERS, normalise
from arco.catalog.ddl import AttachedColumn, ColumnSpec
from arco.core.errors import Invalid
from arco.core.json import Json
from arco.iceberg.engine.columns import columns_of, schema_of
from arco.iceberg.engine.default_value import print_default, read_default
from arco.iceberg.engine.shape import Object


def field(number: int, name: str, kind: Json, **more: Json) -> Object:
    return {"id": number, "name": name, "required": False, "type": kind, **more}


def schema(*fields: Json) -> Object:
    return {"type": "struct", "schema-id": 0, "fields": list(fields)}


def struct(*fields: Json) -> Object:
    return {"type": "struct", "fields": list(fields)}


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        *(("boolean", "boolean"), ("int", "int"), ("long", "bigint"), ("float", "float")),
        *(("double", "double"), ("decimal(9, 2)", "decimal(9,2)"), ("date", "date")),
        *(("decimal(38,0)", "decimal(38,0)"), ("time", "time(6)"), ("string", "string")),
        *(("timestamp", "timestamp_ntz"), ("timestamptz", "timestamp")),
        *(("timestamp_ns", "timestamp_ntz(9)"), ("timestamptz_ns", "timestamp_ltz(9)")),
        *(("uuid", "string"), ("fixed[16]", "binary"), ("binary", "binary")),
        *(("unknown", "void"), ("variant", "variant"), ("LONG", "bigint")),
        *(("geometry", "geometry(4326)"), ("geometry(EPSG:3857)", "geometry(3857)")),
        *(("geometry(srid:0)", "geometry(0)"), ("geometry(projjson:x)", "geometry(any)")),
        *(("geography(OGC:CRS84, karney)", "geography(4326)"), ("geography", "geography(4326)")),
    ],
)
def test_each_type_of_iceberg_has_a_text_in_the_catalog(kind: str, text: str) -> None:
    (column,) = columns_of(schema(field(1, "a", kind)))
    assert column.data_type == text
    assert normalise(text) == text


def test_nested_types_keep_names_nullability_and_comments() -> None:
    inner = struct(
        {"id": 5, "name": "a b", "required": True, "type": "long", "doc": "it's"},
        field(6, "m", {"type": "map", "key-id": 7, "key": "string", "value-id": 8, "value": "int",
                       "value-required": True}),
    )  # fmt: skip
    kind: Json = {"type": "list", "element-id": 4, "element": inner, "element-required": False}
    assert columns_of(
        schema({"id": 3, "name": "l", "required": True, "type": kind, "doc": "all of it"})
    ) == (
        AttachedColumn(
            field_id=3,
            name="l",
            data_type=r"array<struct<`a b`:bigint not null comment 'it\'s',m:map<string,int>>>",
            nullable=False,
            comment="all of it",
        ),
    )


def test_a_comment_that_the_catalog_would_refuse_is_shown_without_what_it_refuses() -> None:
    kind = struct(field(2, "x", "int", doc="bell\x07"))
    (column,) = columns_of(schema(field(1, "a", kind, doc="a\x00b" + "ü" * 70_000)))
    assert column.data_type == "struct<x:int comment 'bell '>"
    assert column.comment is not None
    assert column.comment.startswith("a büü")
    assert len(column.comment.encode()) <= 65_536


def test_a_type_that_only_its_comments_make_too_long_loses_the_comments() -> None:
    many = [field(n, f"f{n}", "int", doc="x" * 300) for n in range(2, 500)]
    (column,) = columns_of(schema(field(1, "a", struct(*many))))
    assert column.data_type.startswith("struct<f2:int,f3:int,")
    huge = [field(n, f"f{n}" + "x" * 200, "int") for n in range(2, 500)]
    with pytest.raises(Invalid, match=f"'a': .* at most {MAX_CHARACTERS} characters"):
        columns_of(schema(field(1, "a", struct(*huge))))


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("int", -7, "-7"),
        ("double", 1.5, "1.5"),
        ("boolean", True, "true"),
        ("decimal(9, 2)", "14.20", "14.20"),
        ("string", "it's\n", r"'it\'s\u000a'"),
        ("date", "2026-01-31", "DATE '2026-01-31'"),
        ("timestamptz", "2026-01-31T10:00:00+00:00", "TIMESTAMP '2026-01-31T10:00:00+00:00'"),
        ("timestamp", "2026-01-31T10:00:00.000001", "TIMESTAMP_NTZ '2026-01-31T10:00:00.000001'"),
        ("time", "10:00:00", "TIME '10:00:00'"),
        ("binary", "00ff", "X'00ff'"),
        ("uuid", "f79c3e09-677c-4bbd-a479-3f349cb785e7", "'f79c3e09-677c-4bbd-a479-3f349cb785e7'"),
    ],
)
def test_a_default_is_shown_as_sql_and_read_back(kind: str, value: Json, text: str) -> None:
    (column,) = columns_of(schema(field(1, "a", kind, **{"write-default": value})))
    assert column.default_value == text
    assert read_default(kind, text, "a") == value


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        *(("int", " +7 ", 7), ("boolean", "TRUE", True), ("float", "1e3", 1000.0)),
        *(("string", '"a"', "a"), ("decimal(5, 2)", "-1", "-1.00"), ("string", "NULL", None)),
        *(("date", "'2026-01-31'", "2026-01-31"), ("time", "time '10:00'", "10:00:00")),
        ("timestamp", "timestamp_ntz '2026-01-31 10:00:00.5'", "2026-01-31T10:00:00.500000"),
        ("timestamptz", "TIMESTAMP '2026-01-31'", "2026-01-31T00:00:00+00:00"),
        ("timestamptz", "TIMESTAMP '2026-01-31 00:30+01:00'", "2026-01-30T23:30:00+00:00"),
        ("timestamp_ns", "'2026-01-31T00:00:00.000000001'", "2026-01-31T00:00:00.000000001"),
        ("fixed[2]", "x'AB01'", "ab01"),
    ],
)
def test_defaults_may_be_spelt_as_sql_allows(kind: str, text: str, value: Json) -> None:
    assert read_default(kind, text, "a") == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        *(("int", "2147483648"), ("int", "1.5"), ("int", "'1'"), ("long", "9" * 19)),
        *(("boolean", "1"), ("float", "nan"), ("double", "1e999"), ("decimal(3, 2)", "12.34")),
        *(("decimal(5, 2)", "0.001"), ("string", "abc"), ("string", "concat('a')")),
        *(("date", "current_date()"), ("date", "'2026-02-30'"), ("time", "'25:00'")),
        *(("timestamp", "'2026-01-31T10:00:00Z'"), ("timestamp", "'2026-01-31 1:0'")),
        *(("timestamp", "'2026-01-31T10:00:00.0000001'"), ("timestamptz", "'0001-01-01+14:00'")),
        *(("binary", "X'0'"), ("fixed[2]", "X'00'"), ("uuid", "'f79c'"), ("variant", "1")),
        *(("geometry", "'POINT (1 2)'"), ("string", "'a' 'b'"), ("string", "date 'a'")),
        *(("int", ""), ("binary", "'00ff'"), ("timestamptz", "TIMESTAMP_NTZ '2026-01-31'")),
    ],
)
def test_what_is_no_literal_of_the_type_is_no_default(kind: str, text: str) -> None:
    with pytest.raises(Invalid):
        read_default(kind, text, "a")


def test_nested_types_take_no_default_but_null() -> None:
    assert read_default(struct(), "null", "a") is None
    with pytest.raises(Invalid, match="no literal of type struct"):
        read_default(struct(), "{}", "a")


def test_a_default_too_long_to_show_is_not_shown() -> None:
    assert print_default("string", "x" * 4_095) is None
    assert print_default("string", "x" * 4_094) == f"'{'x' * 4_094}'"


def test_ids_are_given_to_all_fields_of_a_struct_before_what_is_nested_in_them() -> None:
    nested_schema = schema_of(
        [
            ColumnSpec(name="s", data_type="struct<x:int,y:struct<z:int not null comment 'deep'>>"),
            ColumnSpec(name="m", data_type="map<struct<k:int>,array<string>>", nullable=False),
            ColumnSpec(name="n", data_type="smallint", comment="few", default_value="7"),
        ]
    )
    assert nested_schema == schema(
        field(1, "s", struct(
            field(4, "x", "int"),
            field(5, "y", struct(
                {"id": 6, "name": "z", "required": True, "type": "int", "doc": "deep"})))),
        {"id": 2, "name": "m", "required": True, "type": {
            "type": "map", "key-id": 7, "value-id": 8, "value-required": False,
            "key": struct(field(9, "k", "int")),
            "value": {"type": "list", "element-id": 10, "element": "string",
                      "element-required": False}}},
        field(3, "n", "int", doc="few", **{"write-default": 7}),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        *(("tinyint", "int"), ("long", "long"), ("char(3)", "string"), ("varchar(9)", "string")),
        *(("timestamp", "timestamptz"), ("timestamp_ntz", "timestamp"), ("time(3)", "time")),
        *(("timestamp_ltz(9)", "timestamptz_ns"), ("timestamp_ntz(7)", "timestamp_ns")),
        *(("decimal(10,2)", "decimal(10, 2)"), ("string collate utf8_binary", "string")),
        *(("geometry(4326)", "geometry"), ("geometry(3857)", "geometry(EPSG:3857)")),
        *(("geography(0)", "geography(SRID:0)"), ("variant", "variant")),
    ],
)
def test_a_type_of_spark_becomes_the_one_of_iceberg_that_holds_it(text: str, kind: str) -> None:
    assert schema_of([ColumnSpec(name="a", data_type=text)]) == schema(field(1, "a", kind))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("interval day to second", "Iceberg has no type for interval"),
        ("array<void>", "Iceberg has no type for void"),
        ("geometry(any)", "several coordinate systems"),
        ("string collate UNICODE_CI", "no collations, such as UNICODE_CI"),
        ("strin", "did you mean string"),
    ],
)
def test_a_type_that_iceberg_cannot_hold_is_refused(text: str, reason: str) -> None:
    with pytest.raises(Invalid, match=reason):
        schema_of([ColumnSpec(name="a", data_type=text)])


def test_two_columns_cannot_share_a_name_or_an_id() -> None:
    twice = ColumnSpec(name="a", data_type="int")
    with pytest.raises(Invalid, match="two columns have the name 'a'"):
        schema_of([twice, twice])
    with pytest.raises(Invalid, match="two columns have the id '1'"):
        columns_of(schema(field(1, "a", "int"), field(1, "b", "int")))
    with pytest.raises(Invalid, match="the struct has two fields 'x'"):
        columns_of(schema(field(1, "a", struct(field(2, "x", "int"), field(3, "x", "int")))))


@pytest.mark.parametrize(
    ("bad_schema", "reason"),
    [
        ({}, "lacks fields"),
        ({"type": "list", "fields": []}, "a schema is a struct"),
        ({"fields": {}}, "must be an array"),
        ({"fields": [1]}, "must be an object"),
        (schema({"name": "a", "required": True, "type": "int"}), "lacks id"),
        (schema(field(-1, "a", "int")), "negative"),
        (schema(field(1, "", "int")), "it is empty"),
        (schema(field(1, "a", "integer")), "integer"),
        (schema(field(1, "a", None)), "must be an object, not null"),
        (schema(field(1, "a", {"type": "set"})), "no nested type 'set'"),
        (schema(field(1, "a", {"type": "list", "element-id": 2})), "must be an object, not null"),
        (schema({**field(1, "a", "int"), "required": "yes"}), "must be true or false"),
        (schema(field(1, "a", "int", doc=7)), "must be a string"),
        (schema(field(1, "a", "decimal(39, 0)")), "precision"),
        (
            schema(field(1, "a", struct(field(2, "x\ny", "int")))),
            "column 'a': .* control character",
        ),
    ],
)
def test_a_schema_of_the_wrong_shape_is_refused(bad_schema: Object, reason: str) -> None:
    with pytest.raises(Invalid, match=reason):
        columns_of(bad_schema)


def test_nesting_has_a_limit() -> None:
    kind: Json = "int"
    for number in range(2, 65):
        kind = {"type": "list", "element-id": number, "element": kind, "element-required": True}
    (column,) = columns_of(schema(field(1, "a", kind)))
    assert column.data_type == "array<" * 63 + "int" + ">" * 63
    with pytest.raises(Invalid, match="more than 64 deep"):
        columns_of(schema(field(1, "a", {"type": "list", "element-id": 99, "element": kind})))


NAMES = st.text(st.sampled_from("abc ü.`',<>"), min_size=1, max_size=6).filter(
    lambda name: any(letter.isalpha() for letter in name)
)
PLAIN = st.sampled_from(
    [
        *("boolean", "int", "bigint", "float", "double", "date", "time(6)", "string", "binary"),
        *("timestamp", "timestamp_ntz", "timestamp_ntz(9)", "timestamp_ltz(9)", "variant"),
        *("decimal(10,2)", "decimal(38,38)", "geometry(4326)", "geography(3857)"),
    ]
)


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def structs(types: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    fields = st.tuples(types, st.sampled_from(["", " not null", r" comment 'a\'b'"]))
    return st.dictionaries(NAMES, fields, max_size=3).map(
        lambda schema: (
            "struct<" + ",".join(f"{quoted(k)}:{v[0]}{v[1]}" for k, v in schema.items()) + ">"
        )
    )


TYPES = st.recursive(
    PLAIN,
    lambda types: st.one_of(
        types.map("array<{}>".format),
        st.tuples(types, types).map(lambda both: f"map<{both[0]},{both[1]}>"),
        structs(types),
    ),
    max_leaves=8,
)
SPECS = st.lists(
    st.builds(
        ColumnSpec,
        name=NAMES,
        data_type=TYPES,
        nullable=st.booleans(),
        comment=st.none() | st.text(st.characters(codec="utf-8", categories=["L"]), max_size=5),
    ),
    max_size=4,
    unique_by=lambda spec: spec.name,
)


@given(SPECS)
def test_columns_survive_the_way_to_iceberg_and_back(specs: list[ColumnSpec]) -> None:
    schema = schema_of(specs)
    back = columns_of(schema)
    assert [
        ColumnSpec(name=c.name, data_type=c.data_type, nullable=c.nullable, comment=c.comment)
        for c in back
    ] == [msgspec.structs.replace(s, data_type=normalise(s.data_type)) for s in specs]
    assert [column.field_id for column in back] == list(range(1, len(specs) + 1))
    ids = list(ids_in(schema))
    assert sorted(ids) == list(range(1, len(ids) + 1))


@pytest.mark.parametrize(
    "data_type",
    [
        "struct<x:int,y:struct<z:int>,w:array<int>>",
        "map<struct<a:int,b:array<int>>,map<string,struct<c:int>>>",
        "array<array<struct<q:decimal(3,1),r:map<int,int>>>>",
    ],
)
def test_another_implementation_gives_the_same_ids(data_type: str) -> None:
    names = ("a", "b")
    ours = Schema.model_validate(
        schema_of([ColumnSpec(name=name, data_type=data_type) for name in names])
    )
    assert ours == assign_fresh_schema_ids(ours)


def ids_in(value: Json) -> list[int]:
    if isinstance(value, list):
        return [field_id for each in value for field_id in ids_in(each)]
    if not isinstance(value, dict):
        return []
    own = [value[key] for key in ("id", "element-id", "key-id", "value-id") if key in value]
    nested = [field_id for each in value.values() for field_id in ids_in(each)]
    return [each for each in own if isinstance(each, int)] + nested


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)


def with_holes(value: Json) -> st.SearchStrategy[Json]:
    """`value` with any of its parts replaced by something else."""
    if isinstance(value, dict):
        parts = st.fixed_dictionaries({key: with_holes(each) for key, each in value.items()})
        return st.one_of(parts, parts, parts, JSON)
    if isinstance(value, list):
        items = st.tuples(*(with_holes(each) for each in value)).map(list)
        return st.one_of(items, items, items, JSON)
    return st.one_of(st.just(value), st.just(value), st.just(value), JSON)


FULL = schema(
    field(1, "a", "decimal(9, 2)", doc="x", **{"write-default": "1.00"}),
    field(2, "b", struct(field(3, "c", {"type": "list", "element-id": 4, "element": "int",
                                        "element-required": False}))),
    field(5, "d", {"type": "map", "key-id": 6, "key": "string", "value-id": 7, "value": "uuid",
                   "value-required": True}),
)  # fmt: skip


@given(with_holes(FULL).filter(lambda schema: isinstance(schema, dict)))
def test_wrong_json_is_refused_and_nothing_else_happens(damaged_schema: Object) -> None:
    try:
        columns = columns_of(damaged_schema)
    except Invalid:
        return
    for column in columns:
        assert normalise(column.data_type) == column.data_type


@given(st.sampled_from(["int", "double", "decimal(9, 2)", "string", "date", "timestamptz", "time",
                        "timestamp_ns", "binary", "fixed[3]", "uuid", "boolean"]),
       st.text(max_size=30) | st.from_regex(r"(DATE|X|TIMESTAMP) '[0-9:TZ. +-]{0,30}'"))  # fmt: skip
def test_any_text_is_a_default_that_reads_the_same_again_or_is_refused(
    kind: str, text: str
) -> None:
    try:
        value = read_default(kind, text, "a")
    except Invalid:
        return
    shown = print_default(kind, value)
    assert shown is None or read_default(kind, shown, "a") == value
