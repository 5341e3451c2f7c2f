"""Columns as they are typed: "name type", with "not null" behind; a name with blanks stands in quotes."""

import re
from pathlib import Path

from arco.core import json
from arco.core.errors import Invalid
from arco.core.json import Json

_SPEC = re.compile(
    r"""\s*(?:"((?:[^"]|"")+)"|`((?:[^`]|``)+)`|([^\s"`]\S*))\s+(\S.*?)(\s+not\s+null)?\s*""",
    re.IGNORECASE | re.DOTALL,
)


def read_column(text: str) -> dict[str, Json]:
    """The column that `text` describes, as the API takes it; the server knows the types."""
    found = _SPEC.fullmatch(text)
    if found is None:
        raise Invalid(f'a column is "name type" or "name type not null", not {text[:80]!r}')
    quoted, ticked, bare, data_type, not_null = found.groups()
    name = bare or (quoted.replace('""', '"') if quoted else ticked.replace("``", "`"))
    return {"name": name, "data_type": data_type, "nullable": not_null is None}


def read_columns(specs: tuple[str, ...], file: str | None) -> list[Json]:
    """The columns of a new table: those of a file first, then those of the command line."""
    listed: list[Json] = [] if file is None else _from_file(Path(file).expanduser())
    return [*listed, *(read_column(each) for each in specs)]


def _from_file(file: Path) -> list[Json]:
    try:
        raw = file.read_bytes()
    except OSError as problem:
        reason = (problem.strerror or "").lower()
        raise Invalid(f"--columns-file {str(file)!r} cannot be read: {reason}") from problem
    try:
        found = json.decode(raw, object)
    except Invalid as problem:
        raise Invalid(f"--columns-file {str(file)!r} is not JSON: {problem}") from problem
    columns = found.get("columns") if isinstance(found, dict) else found
    if not isinstance(columns, list):
        raise Invalid(
            f"--columns-file {str(file)!r} has to hold a list of columns such as "
            '[{"name": "id", "data_type": "bigint"}]'
        )
    return columns
