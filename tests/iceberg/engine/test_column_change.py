import copy

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arco.catalog.ddl import (
    AddColumns,
    ColumnRequest,
    ColumnSpec,
    DropColumn,
    TableName,
    UpdateColumn,
)
from arco.core.errors import Invalid, NotFound
from arco.core.json import Json
from arco.iceberg.engine.columns import change_schema, columns_of, schema_of
from arco.iceberg.engine.shape import Object
from tests.iceberg.engine.test_columns import (
    FULL,
    NAMES,
    SPECS,
    TYPES,
    field,
    schema,
    struct,
    with_holes,
)

TABLE = TableName("c", ("s",), "t")
LIST: Json = {"type": "list", "element-id": 6, "element": "float", "element-required": True}
MAP: Json = {"type": "map", "key-id": 8, "key": "int", "value-id": 9, "value": "int",
             "value-required": False}  # fmt: skip
BASE: Object = {
    **schema(
        {"id": 1, "name": "id", "required": True, "type": "int", "x-note": "kept"},
        field(2, "at", "timestamptz", doc="when"),
        field(3, "s", struct(field(4, "x", "decimal(5, 2)", doc="deep"))),
        field(5, "l", LIST),
        field(7, "m", MAP),
        field(10, "u", "uuid"),
    ),
    "identifier-field-ids": [1],
    "x-own": True,
}


def add(*columns: ColumnSpec, position: int | None = None) -> AddColumns:
    return AddColumns(target=TABLE, columns=columns, position=position)


def names(schema: Object) -> list[str]:
    return [column.name for column in columns_of(schema)]


def update(column: str, request: UpdateColumn) -> tuple[Object, int]:
    return change_schema(BASE, 10, msgspec.structs.replace(request, column=column))


def retype(column: str, data_type: str) -> tuple[Json, int]:
    request = UpdateColumn(target=TABLE, column=column, data_type=data_type)
    schema, last_id = change_schema(BASE, 10, request)
    fields = schema["fields"]
    assert isinstance(fields, list)
    (kind,) = [each["type"] for each in fields if isinstance(each, dict) and each["name"] == column]
    return kind, last_id


def test_new_columns_get_ids_that_none_has_had_and_stand_where_they_are_wanted() -> None:
    schema, last_id = change_schema(
        BASE,
        20,
        add(
            ColumnSpec(name="a", data_type="struct<x:int,y:array<int>>", comment="new"),
            ColumnSpec(name="b", data_type="bigint", nullable=False, default_value="7"),
            position=1,
        ),
    )
    inner: Json = {"type": "list", "element-id": 24, "element": "int", "element-required": False}
    kind = struct(field(22, "x", "int"), field(23, "y", inner))
    assert isinstance(schema["fields"], list)
    assert schema["fields"][1:3] == [
        field(21, "a", kind, doc="new"),
        {"id": 25, "name": "b", "required": True, "type": "long",
         "initial-default": 7, "write-default": 7},
    ]  # fmt: skip
    assert last_id == 25
    assert names(schema) == ["id", "a", "b", "at", "s", "l", "m", "u"]
    assert schema["x-own"] is True
    assert names(change_schema(BASE, 20, add(ColumnSpec(name="z", data_type="int")))[0])[-1] == "z"


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (add(), "at least one column"),
        (add(ColumnSpec(name="a", data_type="int"), position=7), "position is 0 to 6, not 7"),
        (add(ColumnSpec(name="at", data_type="int")), "two columns have the name 'at'"),
        (add(ColumnSpec(name="a", data_type="int", nullable=False)), "give it a default value"),
        (add(ColumnSpec(name="a", data_type="interval")), "no type for interval"),
    ],
)
def test_a_column_that_cannot_be_added_is_refused(request_: AddColumns, reason: str) -> None:
    with pytest.raises(Invalid, match=reason):
        change_schema(BASE, 10, request_)


def test_ids_run_out_before_those_that_iceberg_keeps_for_itself() -> None:
    last_id = 2**31 - 1 - 200
    one = ColumnSpec(name="a", data_type="int")
    assert change_schema(BASE, last_id - 1, add(one))[1] == last_id
    with pytest.raises(Invalid, match="no id left"):
        change_schema(BASE, last_id, add(one))


def test_a_dropped_column_is_gone_and_its_id_is_not_given_again() -> None:
    schema, last_id = change_schema(BASE, 10, DropColumn(target=TABLE, column="at"))
    assert names(schema) == ["id", "s", "l", "m", "u"]
    assert last_id == 10
    with pytest.raises(NotFound, match="no column 'gone'"):
        change_schema(BASE, 10, DropColumn(target=TABLE, column="gone"))


def test_a_renamed_column_keeps_its_id_and_what_we_do_not_know_of_it() -> None:
    request = UpdateColumn(target=TABLE, column="id", name="key", comment="new", position=2)
    schema, last_id = change_schema(BASE, 10, request)
    assert isinstance(schema["fields"], list)
    kept_field = {"id": 1, "name": "key", "required": True, "type": "int", "x-note": "kept"}
    assert schema["fields"][2] == {**kept_field, "doc": "new"}
    assert (names(schema), last_id) == (["at", "s", "key", "l", "m", "u"], 10)


def test_comment_and_default_can_be_set_and_cleared() -> None:
    schema, _ = change_schema(
        BASE,
        10,
        UpdateColumn(target=TABLE, column="at", comment=None, default_value="'2026-01-31'"),
    )
    assert isinstance(schema["fields"], list)
    default = {"write-default": "2026-01-31T00:00:00+00:00"}
    assert schema["fields"][1] == field(2, "at", "timestamptz", **default)
    cleared = UpdateColumn(target=TABLE, column="at", default_value=None, comment="when")
    assert change_schema(schema, 10, cleared)[0] == BASE


@pytest.mark.parametrize(
    "request_",
    [
        UpdateColumn(target=TABLE, column="at"),
        UpdateColumn(target=TABLE, column="at", name="at", comment="when", position=1),
        UpdateColumn(target=TABLE, column="at", data_type="TIMESTAMP", nullable=True),
        UpdateColumn(target=TABLE, column="u", data_type="string"),
        UpdateColumn(target=TABLE, column="id", nullable=False, data_type="smallint"),
        UpdateColumn(target=TABLE, column="u", default_value=None, pii_type="id"),
        UpdateColumn(
            target=TABLE, column="s", data_type="struct<x:decimal(5,2) comment 'deep'>"
        ),
    ],
)  # fmt: skip
def test_what_changes_nothing_gives_back_the_same_schema(request_: ColumnRequest) -> None:
    schema, last_id = change_schema(BASE, 10, request_)
    assert schema is BASE
    assert last_id == 10


@pytest.mark.parametrize(
    ("column", "data_type", "kind"),
    [
        ("id", "bigint", "long"),
        ("l", "array<double>", {**LIST, "element": "double"}),  # type: ignore[dict-item]
        ("m", "map<int,long>", {**MAP, "value": "long"}),  # type: ignore[dict-item]
        ("s", "struct<x:decimal(9,2)>", struct(field(4, "x", "decimal(9, 2)", doc="deep"))),
        (
            "s",
            "struct<y:string, x:decimal(5,2) comment 'd'>",
            struct(field(11, "y", "string"), field(4, "x", "decimal(5, 2)", doc="d")),
        ),
        ("s", "struct<>", struct()),
    ],
)
def test_types_can_be_widened_however_deep(column: str, data_type: str, kind: Json) -> None:
    assert retype(column, data_type)[0] == kind


@pytest.mark.parametrize(
    ("column", "data_type"),
    [
        *(("id", "string"), ("id", "float"), ("at", "timestamp_ntz"), ("at", "date")),
        *(("s", "struct<x:decimal(4,2)>"), ("s", "struct<x:decimal(9,3)>"), ("s", "int")),
        *(("s", "struct<x:decimal(5,2) not null>"), ("s", "struct<x:decimal(5,2),y:int not null>")),
        *(("l", "array<int>"), ("l", "map<int,float>"), ("m", "map<bigint,int>"), ("u", "binary")),
        *(("id", "struct<x:int>"), ("id", "interval")),
    ],
)
def test_types_cannot_be_narrowed_or_exchanged(column: str, data_type: str) -> None:
    with pytest.raises(Invalid):
        retype(column, data_type)


def test_nothing_that_may_be_null_becomes_required() -> None:
    with pytest.raises(Invalid, match="cannot be made required"):
        update("at", UpdateColumn(target=TABLE, column="", nullable=False))


def test_a_required_column_may_become_nullable_unless_it_identifies_rows() -> None:
    request = UpdateColumn(target=TABLE, column="id", nullable=True)
    free = {**BASE, "identifier-field-ids": None}
    schema, _ = change_schema(free, 10, request)
    assert columns_of(schema)[0].nullable
    for forbidden_change in (request, DropColumn(target=TABLE, column="id")):
        with pytest.raises(Invalid, match="the id 1 identifies the table's rows"):
            change_schema(BASE, 10, forbidden_change)


def test_a_field_within_a_struct_that_identifies_rows_is_held_as_well() -> None:
    inner: Object = {"id": 2, "name": "x", "required": True, "type": "int"}
    outer: Object = {"id": 1, "name": "s", "required": True, "type": struct(inner)}
    base: Object = {**schema(outer), "identifier-field-ids": [2]}
    wider = UpdateColumn(target=TABLE, column="s", data_type="struct<x:bigint not null>")
    assert columns_of(change_schema(base, 2, wider)[0])[0].data_type == "struct<x:bigint not null>"
    for refused in (
        UpdateColumn(target=TABLE, column="s", nullable=True),
        UpdateColumn(target=TABLE, column="s", data_type="struct<x:int>"),
        UpdateColumn(target=TABLE, column="s", data_type="struct<>"),
    ):
        with pytest.raises(Invalid, match="the id 2 identifies"):
            change_schema(base, 2, refused)


@pytest.mark.parametrize("position", [-1, 6])
def test_a_position_outside_the_table_is_refused(position: int) -> None:
    with pytest.raises(Invalid, match="position is 0 to 5"):
        update("at", UpdateColumn(target=TABLE, column="", position=position))


def requests(columns: list[str]) -> st.SearchStrategy[ColumnRequest]:
    some = st.sampled_from([*columns, "missing"])
    spec = st.builds(ColumnSpec, name=NAMES, data_type=TYPES)
    at = st.integers(-1, 7)
    return st.one_of(
        st.builds(DropColumn, target=st.just(TABLE), column=some),
        st.builds(
            AddColumns,
            target=st.just(TABLE),
            columns=st.lists(spec, max_size=2).map(tuple),
            position=st.none() | at,
        ),
        st.builds(
            UpdateColumn, target=st.just(TABLE), column=some, name=NAMES, position=at,
            data_type=TYPES,
        ),
        st.builds(UpdateColumn, target=st.just(TABLE), column=some, position=at),
        st.builds(UpdateColumn, target=st.just(TABLE), column=some, data_type=TYPES),
    )  # fmt: skip


@given(SPECS, st.data())
def test_columns_that_stay_keep_their_ids_and_new_ones_get_higher_ones(
    specs: list[ColumnSpec], data: st.DataObject
) -> None:
    before = schema_of(specs)
    untouched = copy.deepcopy(before)
    old = {column.field_id: column for column in columns_of(before)}
    request = data.draw(requests([spec.name for spec in specs]))
    try:
        after, last_id = change_schema(before, 1_000, request)
    except (Invalid, NotFound):
        return
    finally:
        assert before == untouched
    new = {column.field_id: column for column in columns_of(after)}
    assert all(1_000 < number <= last_id for number in new.keys() - old.keys())
    if isinstance(request, AddColumns):
        assert old.items() <= new.items()
    elif isinstance(request, DropColumn):
        assert [old[number].name for number in old.keys() - new.keys()] == [request.column]
    else:
        assert old.keys() == new.keys()


@given(with_holes({**FULL, "identifier-field-ids": [1]}), st.data())
def test_a_schema_of_the_wrong_shape_is_refused_and_nothing_else_happens(
    damaged_schema: Json, data: st.DataObject
) -> None:
    if not isinstance(damaged_schema, dict):
        return
    try:
        change_schema(damaged_schema, 9, data.draw(requests(["a", "b", "d"])))
    except (Invalid, NotFound):
        return
