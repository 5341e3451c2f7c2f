import json
from pathlib import Path

import pytest

from arco.catalog.model import TableFormat
from arco.cli import flags
from arco.cli.column import read_column, read_columns
from arco.core.errors import Invalid


@pytest.mark.parametrize(
    ("text", "name", "data_type", "nullable"),
    [
        ("id bigint", "id", "bigint", True),
        ("id bigint NOT  NULL", "id", "bigint", False),
        (" id\tdecimal(10, 2) ", "id", "decimal(10, 2)", True),
        ("s struct<a: int not null>", "s", "struct<a: int not null>", True),
        ('"my col" string', "my col", "string", True),
        ('"say ""hi""" string', 'say "hi"', "string", True),
        ("`a/b` string not null", "a/b", "string", False),
        ("a.b timestamp", "a.b", "timestamp", True),
    ],
)
def test_a_column_is_a_name_a_type_and_whether_it_may_be_null(
    text: str, name: str, data_type: str, nullable: bool
) -> None:
    assert read_column(text) == {"name": name, "data_type": data_type, "nullable": nullable}


@pytest.mark.parametrize("text", ["", "id", " ", '"open string', '"" string', "``"])
def test_what_is_no_column_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="name type"):
        read_column(text)


@pytest.mark.parametrize("wrapped", [True, False])
def test_columns_of_a_file_come_before_those_of_the_line(wrapped: bool, tmp_path: Path) -> None:
    listed = [{"name": "id", "data_type": "bigint", "sensitivity": "PUBLIC"}]
    file = tmp_path / "columns.json"
    file.write_text(json.dumps({"columns": listed} if wrapped else listed))

    columns = read_columns(("email string",), str(file))

    assert columns == [*listed, {"name": "email", "data_type": "string", "nullable": True}]


@pytest.mark.parametrize("text", ["", "{}", '"id"', "[", '{"columns": 1}'])
def test_a_file_without_a_list_of_columns_is_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "columns.json"
    file.write_text(text)

    with pytest.raises(Invalid, match="--columns-file"):
        read_columns((), str(file))


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="no such file"):
        read_columns((), str(tmp_path / "nothing.json"))


def test_the_command_line_knows_the_same_formats_as_the_catalog() -> None:
    assert [each.upper() for each in flags.TableFormatChoice] == [
        each.value for each in TableFormat
    ]
