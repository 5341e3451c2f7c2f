"""The model's columns: what a change of them comes to, as whole lists."""

from collections.abc import Sequence
from uuid import UUID, uuid5

from msgspec import UNSET

from arco.catalog import ddl

from .model_rows import Refused, Row

_ASKED = (
    *("name", "data_type", "nullable", "comment"),
    *("default_value", "pii_type", "sensitivity"),
)
_RECORDED = (*_ASKED, "column_id", "position", "field_id")


def fresh(
    table_id: str, specs: Sequence[ddl.ColumnSpec], *, first_field: int, at: int, lifetime: Row
) -> list[Row]:
    """Columns that were not there before."""
    return [
        {
            "column_id": str(uuid5(UUID(table_id), str(first_field + offset))),
            "table_id": table_id,
            "position": at + offset,
            "field_id": first_field + offset,
            **{name: _text(getattr(spec, name)) for name in _ASKED},
            **lifetime,
        }
        for offset, spec in enumerate(specs)
    ]


def changed(
    table: Row,
    before: list[Row],
    request: ddl.AddColumns | ddl.UpdateColumn | ddl.DropColumn,
    lifetime: Row,
) -> tuple[list[Row], int]:
    """The columns afterwards, in order, those just dropped among them, and the last field id."""
    after = [dict(column) for column in before]
    last: int = table["last_field_id"]
    if isinstance(request, ddl.AddColumns):
        at = len(before) if request.position is None else request.position
        if not request.columns or not 0 <= at <= len(before):
            raise Refused("invalid")
        table_id = table["table_id"]
        after[at:at] = fresh(
            table_id, request.columns, first_field=last + 1, at=at, lifetime=lifetime
        )
        return after, last + len(request.columns)
    column = next((each for each in after if each["name"] == request.column), None)
    if column is None:
        raise Refused("not_found")
    touched = {"updated_at": lifetime["updated_at"], "updated_by": lifetime["updated_by"]}
    if isinstance(request, ddl.DropColumn):
        column |= {**touched, "dropped_at": lifetime["updated_at"]}
        return after, last
    wanted = {name: getattr(request, name) for name in _ASKED}
    news = {name: _text(value) for name, value in wanted.items() if value is not UNSET}
    if any(column.get(name) != value for name, value in news.items()):
        column |= {**touched, **news}
    if request.position is not UNSET:
        if not 0 <= request.position < len(before):
            raise Refused("invalid")
        after.remove(column)
        after.insert(request.position, column)
    return after, last


def refuse_doubles(columns: list[Row]) -> None:
    """Two columns of one table have two names."""
    if len({column["name"] for column in columns}) < len(columns):
        raise Refused("invalid")


def personal(columns: list[Row]) -> list[str]:
    """The names of columns that hold personal data."""
    return [column["name"] for column in columns if column.get("pii_type") is not None]


def recorded(columns: list[Row]) -> list[Row]:
    """What a version keeps of each column."""
    return [
        {name: column[name] for name in _RECORDED if column.get(name) is not None}
        for column in columns
    ]


def _text(value: object) -> object:
    return getattr(value, "value", value)  # an enum as it is stored
