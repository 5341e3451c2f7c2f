"""`arco catalog`, `arco schema`, `arco table` and `arco view`, made from one declaration.

The commands of the four types differ in how a name reads, in which flags and commands they have, and in
`create`. `_TYPES` declares that; the functions of `_ObjectCommands` are the same for all.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from arco.cli.flags import (
    CONFIG,
    AsJson,
    AsOf,
    ById,
    CatalogName,
    Columns,
    ColumnsFile,
    DescriptionFlags,
    Dropped,
    Force,
    Format,
    From,
    InCatalog,
    Location,
    NewName,
    NewNameFlag,
    Parent,
    SchemaName,
    Server,
    TableName,
    To,
    ViewName,
)
from arco.core.errors import Invalid

if TYPE_CHECKING:
    from arco.client import Arco
    from arco.client.object_name import ObjectName
    from arco.client.objects import CatalogObjects

_SERVER, _DESCRIBED = Server(), DescriptionFlags()

Sql = Annotated[str | None, Parameter(metavar="QUERY", help="The query that the view shows.")]
SqlFile = Annotated[str | None, Parameter(metavar="FILE", help="A file that holds the query.")]
Dialect = Annotated[
    str | None, Parameter(metavar="NAME", help="The SQL dialect of the query; spark by default.")
]


@dataclass(frozen=True)
class _Type:
    """How the commands of one type of objects read. Commands without a help text do not exist."""

    word: str
    name: Any  # the annotation of the argument NAME
    help: str
    helps: dict[str, str]
    examples: str
    headings: tuple[str, ...]
    without: frozenset[str] = frozenset()  # flags that the type does not have


_HEADINGS = ("OWNER", "UPDATED", "COMMENT")
_TABLE_HEADINGS = ("FORMAT", "TYPE", *_HEADINGS)
_TYPES = {
    "catalog": _Type(
        word="catalog",
        name=CatalogName,
        help="Create, list, change and drop catalogs of a running server, and show their history.",
        helps={
            "create": "Create a catalog.",
            "list": "List catalogs.",
            "show": "Show one catalog.",
            "rename": "Rename a catalog.",
            "drop": "Drop an empty catalog, or with --force one that is not empty.",
            "undrop": "Restore the catalog of that name that was dropped last.",
            "history": "List the versions of a catalog: time, actor and operation.",
            "diff": "List catalogs that changed between two versions, or everything that changed in one.",
        },
        headings=("CATALOG", *_HEADINGS),
        without=frozenset({"catalog", "parent"}),
        examples="""\
Examples:
  arco catalog create lake --comment "All of it" --owner group:data
  arco catalog list
  arco catalog list --dropped
  arco catalog show lake --as-of 2026-01-31T12:00:00Z
  arco catalog rename lake ocean
  arco catalog drop ocean --force              with everything in it
  arco catalog undrop ocean --as lake
  arco catalog history lake
  arco catalog diff lake --from 3 --to 9       the catalog and everything in it

They call the server at http://127.0.0.1:8181, or at --url.""",
    ),
    "schema": _Type(
        word="schema",
        name=SchemaName,
        help="Create, list, change and drop schemas of a running server, and show their history.",
        helps={
            "create": "Create a schema.",
            "list": "List the schemas directly below a catalog or a schema.",
            "show": "Show one schema.",
            "rename": "Rename a schema; it keeps its parent.",
            "drop": "Drop an empty schema, or with --force one that is not empty.",
            "undrop": "Restore the schema of that name that was dropped last.",
            "history": "List the versions of a schema: time, actor and operation.",
            "diff": "List schemas that changed between two versions, or everything that changed in one.",
        },
        headings=("SCHEMA", *_HEADINGS),
        examples="""\
Examples:
  arco schema create sales                     in the catalog default
  arco schema create lake.raw                  in the catalog lake
  arco schema create default.sales.eu          below the schema sales of default
  arco schema list                             at the top level of default
  arco schema list lake.raw                    directly below lake.raw
  arco schema show lake.raw --as-of 17
  arco schema rename lake.raw lake.bronze
  arco schema drop lake.bronze --force         with everything in it
  arco schema undrop lake.bronze
  arco schema history sales
  arco schema diff sales --from 3              the schema and everything in it

A name of one part is a schema of the catalog default; of more parts the first is
the catalog. With --catalog every part is a schema. Put double quotes around a
part that contains a dot.""",
    ),
    "table": _Type(
        word="table",
        name=TableName,
        help="Create, list, change and drop tables of a running server, and show their history.",
        helps={
            "create": "Create a table; without --location Arco chooses the location and owns the files.",
            "list": "List the tables of a schema, or all tables of a catalog.",
            "show": "Show one table.",
            "files": "List the current files of a plain Parquet table.",
            "rename": "Rename a table, or move it to another schema or catalog.",
            "drop": "Drop a table; its files are kept until it can no longer be restored.",
            "undrop": "Restore the table of that name that was dropped last.",
            "history": "List the versions of a table: time, actor and operation.",
            "diff": "List tables that changed between two versions, or the changes of one table.",
        },
        headings=("TABLE", *_TABLE_HEADINGS),
        without=frozenset({"force"}),
        examples="""\
Examples:
  arco table create sales.orders --format parquet \\
      --column "id bigint not null" --column "email string" --tag gold
  arco table create lake.raw.orders --format delta \\
      --location s3://lake/raw/orders --columns-file columns.json
  arco table list                              all tables of the catalog default
  arco table list sales                        tables of one schema
  arco table show sales.orders --as-of 17
  arco table files sales.orders                files of a plain Parquet table
  arco table rename sales.orders sales.orders_2026
  arco table rename sales.orders lake.archive.orders     move it
  arco table drop sales.orders
  arco table undrop sales.orders --as orders_old
  arco table history sales.orders
  arco table diff --from 3 --to 9

A name of two parts is a schema of the catalog default and a table; of more parts
the first is the catalog. With --catalog all but the last are schemas. Put double
quotes around a part that contains a dot.""",
    ),
    "view": _Type(
        word="view",
        name=ViewName,
        help="Create, list, change and drop views of a running server.",
        helps={
            "create": "Create a view from a query and the columns of its result.",
            "list": "List the views of a schema, or all views of a catalog.",
            "show": "Show one view with its query.",
            "rename": "Rename a view, or move it to another schema or catalog.",
            "drop": "Drop a view.",
            "undrop": "Restore the view of that name that was dropped last.",
        },
        headings=("VIEW", *_TABLE_HEADINGS),
        without=frozenset({"force"}),
        examples="""\
Examples:
  arco view create sales.open_orders --column "id bigint" --column "at date" \\
      --sql "SELECT id, at FROM orders WHERE open"
  arco view create sales.open_orders --sql-file view.sql --dialect trino \\
      --columns-file columns.json
  arco view list sales
  arco view show sales.open_orders
  arco view rename sales.open_orders sales.opened
  arco view drop sales.open_orders
  arco view undrop sales.open_orders

Tables and views share one set of names: `arco table list` lists both, and `arco
table history` works for both.""",
    ),
}


class _ObjectCommands:
    """The commands of one type of objects."""

    def __init__(self, declared: _Type) -> None:
        self._type = declared
        self._word = declared.word

    def app(self) -> App:
        """The commands as `arco` registers them."""
        declared = self._type
        app = App(
            name=declared.word, help=declared.help, help_epilogue=declared.examples, config=CONFIG
        )
        for name, text in declared.helps.items():
            method = {"create": f"create_{declared.word}", "list": "list_"}.get(name, name)
            app.command(self._declared(getattr(self, method)), name=name, help=text)
        return app

    def _declared(self, function: Callable[..., None]) -> Callable[..., None]:
        """A function with the parameters that this type has, and NAME as it reads."""

        def command(*arguments: object, **flags: object) -> None:
            function(*arguments, **flags)

        signature = inspect.signature(function)
        parameters = [
            each.replace(annotation=self._annotation(each))
            for each in signature.parameters.values()
            if each.name not in self._type.without
        ]
        command.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {each.name: each.annotation for each in parameters}
        return command

    def _annotation(self, parameter: inspect.Parameter) -> Any:
        if parameter.name != "name":
            return parameter.annotation
        name = self._type.name
        return name if parameter.default is inspect.Parameter.empty else name | None

    def _parse(self, name: str, catalog: str | None) -> "ObjectName":
        from arco.client.object_name import PARSERS, ObjectType

        return PARSERS[ObjectType(self._word)](name, catalog)

    def _maybe(self, name: str | None, catalog: str | None) -> "ObjectName | None":
        return None if name is None else self._parse(name, catalog)

    def _objects(self, arco: "Arco") -> "CatalogObjects[Any]":
        objects: CatalogObjects[Any] = getattr(arco, f"{self._word}s")
        return objects

    def create_catalog(
        self,
        name: str,
        /,
        *,
        described: DescriptionFlags = _DESCRIBED,
        server: Server = _SERVER,
        json: AsJson = False,
    ) -> None:
        catalog = self._parse(name, None)
        with server.open() as arco:
            self._created(arco.catalogs.create(catalog, **described.fields()), as_json=json)

    def create_schema(
        self,
        name: str,
        /,
        *,
        described: DescriptionFlags = _DESCRIBED,
        catalog: InCatalog = None,
        server: Server = _SERVER,
        json: AsJson = False,
    ) -> None:
        schema = self._parse(name, catalog)
        with server.open() as arco:
            self._created(arco.schemas.create(schema, **described.fields()), as_json=json)

    def create_table(
        self,
        name: str,
        /,
        *,
        format_: Format,
        column: Columns = (),
        columns_file: ColumnsFile = None,
        location: Location = None,
        described: DescriptionFlags = _DESCRIBED,
        catalog: InCatalog = None,
        server: Server = _SERVER,
        json: AsJson = False,
    ) -> None:
        from arco.cli.column import read_columns

        columns, fields = read_columns(column, columns_file), described.fields()
        table = self._parse(name, catalog)
        with server.open() as arco:
            created = arco.tables.create(
                table, format=format_, columns=columns, location=location, **fields
            )
        self._created(created, as_json=json)

    def create_view(
        self,
        name: str,
        /,
        *,
        sql: Sql = None,
        sql_file: SqlFile = None,
        dialect: Dialect = None,
        column: Columns = (),
        columns_file: ColumnsFile = None,
        described: DescriptionFlags = _DESCRIBED,
        catalog: InCatalog = None,
        server: Server = _SERVER,
        json: AsJson = False,
    ) -> None:
        from arco.cli.column import read_columns

        query, columns = _query(sql, sql_file), read_columns(column, columns_file)
        fields, view = described.fields(), self._parse(name, catalog)
        with server.open() as arco:
            created = arco.views.create(view, sql=query, dialect=dialect, columns=columns, **fields)
        self._created(created, as_json=json)

    def list_(
        self,
        parent: Parent = None,
        /,
        *,
        dropped: Dropped = False,
        as_of: AsOf = None,
        catalog: InCatalog = None,
        server: Server = _SERVER,
        json: AsJson = False,
    ) -> None:
        from arco.cli.object_rendering import row_of
        from arco.cli.rendering import print_items, print_rows
        from arco.client.object_name import parse_parent_of_schemas, parse_parent_of_tables

        parse = parse_parent_of_schemas if self._word == "schema" else parse_parent_of_tables
        within = None if self._word == "catalog" else parse(parent, catalog)
        with server.open() as arco:
            listed = self._objects(arco).list(within, dropped=dropped, as_of=as_of)
            if json:
                print_items(each.raw for each in listed)
            else:
                headings = self._type.headings + (("DROPPED", "ID") if dropped else ())
                print_rows(headings, (row_of(each) for each in listed))

    def show(
        self,
        name: str,
        /,
        *,
        as_of: AsOf = None,
        catalog: InCatalog = None,
        server: Server = _SERVER,
        json: AsJson = False,
    ) -> None:
        from arco.cli.object_rendering import print_object
        from arco.cli.output import print_raw

        parsed = self._parse(name, catalog)
        with server.open() as arco:
            info = self._objects(arco).get(parsed, as_of=as_of)
        print_raw(info.raw) if json else print_object(info)

    def files(
        self,
        name: str,
        /,
        *,
        catalog: InCatalog = None,
        server: Server = _SERVER,
        json: AsJson = False,
    ) -> None:
        from arco.cli.output import print_document

        parsed = self._parse(name, catalog)
        with server.open() as arco:
            current = arco.tables.files(parsed)
        if json:
            print_document(current)
            return
        for key in sorted(current.files):
            for each in current.files[key]:
                print(current.location + each.path)

    def rename(
        self,
        name: str,
        new: NewName,
        /,
        *,
        catalog: InCatalog = None,
        server: Server = _SERVER,
        json: AsJson = False,
    ) -> None:
        from arco.cli.output import print_raw

        old, renamed = self._parse(name, catalog), self._parse(new, catalog)
        with server.open() as arco:
            info = self._objects(arco).rename(old, renamed)
        if json:
            print_raw(info.raw)
        else:
            print(f"Renamed {self._word} {old} to {info.full_name}.")

    def drop(
        self,
        name: str,
        /,
        *,
        force: Force = False,
        catalog: InCatalog = None,
        server: Server = _SERVER,
        json: AsJson = False,
    ) -> None:
        from arco.cli.output import print_document

        parsed = self._parse(name, catalog)
        with server.open() as arco:
            self._objects(arco).drop(parsed, force=force)
        if json:
            print_document({"dropped": str(parsed), "kind": self._word.upper()})
        else:
            back = f"arco {self._word} undrop {quote(str(parsed))}"
            print(f"Dropped {self._word} {parsed}. `{back}` brings it back.")

    def undrop(
        self,
        name: str | None = None,
        /,
        *,
        id_: ById = None,
        as_: NewNameFlag = None,
        catalog: InCatalog = None,
        server: Server = _SERVER,
        json: AsJson = False,
    ) -> None:
        from arco.cli.output import print_raw

        parsed = self._maybe(name, catalog)
        with server.open() as arco:
            restored = self._objects(arco).undrop(parsed, object_id=id_, new_name=as_)
        if json:
            print_raw(restored.raw)
        else:
            print(f"Brought back {self._word} {restored.full_name}.")

    def history(
        self,
        name: str | None = None,
        /,
        *,
        id_: ById = None,
        catalog: InCatalog = None,
        server: Server = _SERVER,
        json: AsJson = False,
    ) -> None:
        from arco.cli.object_rendering import rows_of_versions
        from arco.cli.rendering import print_items, print_rows

        parsed = self._maybe(name, catalog)
        with server.open() as arco:
            versions = self._objects(arco).history(parsed, object_id=id_)
            if json:
                print_items(each.raw for each in versions)
            else:
                rows = rows_of_versions(list(versions))
                print_rows(("VERSION", "WHEN", "WHO", "WHAT", "CHANGED"), rows)

    def diff(
        self,
        name: str | None = None,
        /,
        *,
        from_: From,
        to: To = None,
        catalog: InCatalog = None,
        server: Server = _SERVER,
        json: AsJson = False,
    ) -> None:
        from arco.cli.object_rendering import row_of_change
        from arco.cli.rendering import print_items, print_rows

        parsed = self._maybe(name, catalog)
        with server.open() as arco:
            changes = self._objects(arco).diff(parsed, start=from_, end=to)
            if json:
                print_items(each.raw for each in changes)
            else:
                headings = ("VERSION", "CHANGE", "KIND", "NAME", "CHANGED")
                print_rows(headings, (row_of_change(each) for each in changes))

    def _created(self, created: Any, *, as_json: bool) -> None:
        from arco.cli.output import print_raw

        if as_json:
            print_raw(created.raw)
        else:
            print(f"Created {self._word} {created.full_name}, id {created.id}.")


def _query(sql: str | None, file: str | None) -> str:
    if (sql is None) == (file is None):
        raise Invalid("give the view's query with --sql or --sql-file, and not with both")
    if file is None:
        return sql or ""
    try:
        return Path(file).expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        reason = getattr(problem, "strerror", None) or "it is not text"
        raise Invalid(f"--sql-file {file!r} cannot be read: {reason.lower()}") from problem


catalog = _ObjectCommands(_TYPES["catalog"]).app()
schema = _ObjectCommands(_TYPES["schema"]).app()
table = _ObjectCommands(_TYPES["table"]).app()
view = _ObjectCommands(_TYPES["view"]).app()
