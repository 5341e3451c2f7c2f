import pytest

from arco.core.errors import Invalid
from arco.core.json import Json, encode
from arco.iceberg.engine.schema import read_schema
from tests.iceberg.engine.sample_metadata import column, struct


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
