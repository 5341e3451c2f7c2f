"""Flags that the commands about catalogs, schemas and tables share."""

import os
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from arco.cli.settings import VARIABLES, ignore_empty
from arco.core.errors import Invalid

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cyclopts import App
    from cyclopts.argument import ArgumentCollection

    from arco.client import Arco

DEFAULT_URL = "http://127.0.0.1:8181"
TOKEN = "ARCO_TOKEN"  # noqa: S105 - the name of the variable

_MAX_TOKEN_BYTES = 64 * 1024


def variable_lines(_kind: Any, text: str, **_options: Any) -> list[str]:
    """The values of a flag that may be repeated, from its environment variable: one in each line."""
    return text.splitlines()


def _argument(help_text: str, metavar: str = "NAME") -> Parameter:
    return Parameter(metavar=metavar, help=help_text, show_env_var=False)


CatalogName = Annotated[str, _argument("The catalog.")]
SchemaName = Annotated[
    str, _argument("The schema: schema (in the catalog default), or catalog.schema[.schema...].")
]
TableName = Annotated[
    str,
    _argument("The table: schema.table (in the catalog default), or catalog.schema[...].table."),
]
ViewName = Annotated[
    str,
    _argument("The view: schema.view (in the catalog default), or catalog.schema[...].view."),
]
Parent = Annotated[
    str | None,
    _argument("The catalog or schema to list.", "PARENT"),
]
NewName = Annotated[str, _argument("The new full name.", "NEW")]
ColumnName = Annotated[str, _argument("The column.", "COLUMN")]

InCatalog = Annotated[
    str | None,
    Parameter(metavar="NAME", help="The catalog; every part of a dotted name is then below it."),
]
AsOf = Annotated[
    str | None,
    Parameter(
        metavar="WHEN",
        help="Read an earlier state: a version, a commit id, or a time such as 2026-01-31T12:00:00Z.",
    ),
]
From = Annotated[
    str,
    Parameter(
        name="--from", metavar="WHEN", help="The older version, in the form that --as-of takes."
    ),
]
To = Annotated[
    str | None,
    Parameter(name="--to", metavar="WHEN", help="The newer version; by default the newest."),
]
Dropped = Annotated[
    bool,
    Parameter(
        negative="", show_default=False, help="List dropped objects that can still be restored."
    ),
]
Force = Annotated[
    bool,
    Parameter(
        negative="", show_default=False, show_env_var=False, help="Drop it with everything in it."
    ),
]
NewNameFlag = Annotated[
    str | None,
    Parameter(name="--as", metavar="NAME", help="Restore it under this name (the last part only)."),
]
ById = Annotated[
    str | None, Parameter(name="--id", metavar="ID", help="The object's id, instead of a name.")
]
AsJson = Annotated[
    bool, Parameter(name="--json", negative="", show_default=False, help="Print one JSON document.")
]


Columns = Annotated[
    tuple[str, ...],
    Parameter(
        name="--column",
        metavar="SPEC",
        negative="",
        show_default=False,
        env_var_split=variable_lines,
        help='A column, as "name type" or "name type not null"; may be repeated.',
    ),
]
ColumnsFile = Annotated[
    str | None,
    Parameter(
        metavar="FILE",
        help='A JSON file with columns: [{"name": "id", "data_type": "bigint"}, ...].',
    ),
]
Location = Annotated[
    str | None, Parameter(metavar="URL", help="The location of the files of an external table.")
]


class TableFormatChoice(StrEnum):
    """The table formats of the API."""

    DELTA = "delta"
    ICEBERG = "iceberg"
    PARQUET = "parquet"
    CSV = "csv"
    JSON = "json"


Format = Annotated[
    TableFormatChoice,
    Parameter(name="--format", help="The format of the files; delta only with --location."),
]


@Parameter(name="*")
@dataclass(frozen=True)
class DescriptionFlags:
    """Flags that describe an object.

    Parameters
    ----------
    comment
        A description.
    property
        A property, as key=value; may be repeated.
    tag
        A tag; may be repeated.
    owner
        The owner, such as user:ana or group:sales.
    """

    comment: Annotated[str | None, Parameter(metavar="TEXT")] = None
    property: Annotated[
        tuple[str, ...],
        Parameter(
            metavar="KEY=VALUE", negative="", show_default=False, env_var_split=variable_lines
        ),
    ] = ()
    tag: Annotated[
        tuple[str, ...],
        Parameter(metavar="TAG", negative="", show_default=False, env_var_split=variable_lines),
    ] = ()
    owner: Annotated[str | None, Parameter(metavar="WHO")] = None

    def fields(self) -> dict[str, Any]:
        """The fields of the object, as the client takes them."""
        properties = dict(_pair(text) for text in self.property)
        return {
            "comment": self.comment,
            "owner": self.owner,
            "tags": self.tag,
            "properties": properties,
        }


@Parameter(name="*")
@dataclass(frozen=True)
class Server:
    """Flags that name a running server.

    Parameters
    ----------
    url
        The URL of the running server.
    token_file
        A file that holds the token to send; the variable ARCO_TOKEN may hold the token itself.
    """

    url: Annotated[str, Parameter(metavar="URL")] = DEFAULT_URL
    token_file: Annotated[str | None, Parameter(metavar="FILE")] = None

    @contextmanager
    def open(self) -> "Iterator[Arco]":
        """A client of the Arco that the flags name; no request is sent yet."""
        from arco.client import Arco

        with Arco(self.checked_url(), self.token()) as arco:
            yield arco

    def checked_url(self) -> str:
        """The URL, or `Invalid` with the flag that it came from."""
        from arco.client.transport import check_url

        try:
            check_url(self.url)
        except Invalid as problem:
            raise Invalid(f"--url is wrong: {problem}") from problem
        return self.url

    def has_token(self) -> bool:
        """Whether a token is sent."""
        return self.token() is not None

    def token(self) -> str | None:
        """The token to send, if there is one."""
        text = os.environ.get(TOKEN, "")
        if self.token_file is not None:
            text = _read_token(Path(self.token_file).expanduser())
        text = text.strip()
        if not text.isascii() or not text.isprintable() or " " in text:
            raise Invalid("the token is invalid: it must be printable ASCII without spaces")
        return text or None


def ignore_variables_for_names(
    _app: "App", _commands: tuple[str, ...], arguments: "ArgumentCollection"
) -> None:
    """An environment variable sets a flag, never the name of an object to drop, nor --force."""
    for argument in arguments:
        is_name = not any(name.startswith("--") for name in argument.names)
        if is_name or "--force" in argument.names:
            argument.tokens[:] = [
                token for token in argument.tokens if token.source != VARIABLES.source
            ]


CONFIG = (VARIABLES, ignore_empty, ignore_variables_for_names)


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise Invalid(f"--property takes key=value, not {text[:80]!r}")
    return key, value


def _read_token(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            raw = opened.read(_MAX_TOKEN_BYTES)
        return raw.decode()
    except (OSError, UnicodeDecodeError) as problem:
        reason = getattr(problem, "strerror", None) or "it is not text"
        raise Invalid(f"--token-file {str(file)!r} cannot be read: {reason.lower()}") from problem
