"""Random changes of a catalog, the same for the same seed; those that are refused are left out."""

from random import Random

from arco.catalog.ddl import (
    AddColumns,
    CatalogName,
    ColumnSpec,
    CreateCatalog,
    CreateSchema,
    CreateTable,
    Ddl,
    DropCatalog,
    DropColumn,
    DropSchema,
    DropTable,
    SchemaName,
    TableName,
    Undrop,
    UpdateColumn,
    UpdateSchema,
    UpdateTable,
)
from arco.catalog.model import TableFormat
from arco.core.errors import ArcoError, Corrupt
from tests.query.workspace import Workspace

_CATALOGS = ("default", "lake")
_LEVELS = ("a", "b", "ü")
_TABLES = ("t", "u", "v", "w")
_COLUMNS = ("id", "x", "y", "z")


class Changes:
    """Makes changes at random; small sets of names make them meet."""

    def __init__(self, space: Workspace, seed: int) -> None:
        self._workspace = space
        self._random = Random(seed)
        self._ids: list[str] = []
        self.done = 0

    async def make(self, count: int) -> None:
        """Ask for changes until so many were carried out."""
        goal = self.done + count
        while self.done < goal:
            try:
                done = await self._workspace.do(
                    self._request(), f"user:{self._random.randrange(3)}"
                )
            except Corrupt:
                raise
            except ArcoError:
                continue
            self.done += 1
            row = done.object.row
            self._ids.append(
                getattr(row, "table_id", None) or getattr(row, "schema_id", None) or ""
            )

    def _request(self) -> Ddl:
        pick, table, schema = self._random.choice, self._table(), self._schema()
        requests: list[Ddl] = [
            CreateCatalog(name="lake", comment="a lake"),
            *[
                CreateSchema(catalog=pick(_CATALOGS), parent=p[:-1], name=p[-1])
                for p in self._paths(3)
            ],
            *[self._create_table() for _ in range(6)],
            UpdateSchema(target=schema, name=pick(_LEVELS), properties={"k": pick(_TABLES)}),
            UpdateTable(target=table, name=pick(_TABLES), comment=pick(_TABLES)),
            UpdateTable(target=table, schema=self._schema().path, tags=(pick(_TABLES), "é")),
            UpdateTable(target=table, catalog=pick(_CATALOGS), schema=self._schema().path),
            AddColumns(target=table, columns=(ColumnSpec(name=pick(_COLUMNS), data_type="date"),)),
            UpdateColumn(target=table, column=pick(_COLUMNS), name=pick(_COLUMNS), comment="c"),
            DropColumn(target=table, column=pick(_COLUMNS)),
            DropTable(target=table),
            DropSchema(target=schema, force=self._random.random() < 0.5),
        ]
        if self._random.random() < 0.1:
            requests.append(DropCatalog(target=CatalogName("lake"), force=True))
        if self._ids:
            requests += [Undrop(id=pick(self._ids)), Undrop(id=pick(self._ids))]
        return pick(requests)

    def _create_table(self) -> CreateTable:
        names = self._random.sample(_COLUMNS, self._random.randrange(1, 4))
        return CreateTable(
            schema=self._schema(),
            name=self._random.choice(_TABLES),
            location=self._random.choice((None, None, "s3://lake/a", "s3a://lake/a/b")),
            format=self._random.choice(tuple(TableFormat)),
            columns=tuple(ColumnSpec(name=name, data_type="bigint") for name in names),
            owner=self._random.choice((None, "ada")),
        )

    def _schema(self) -> SchemaName:
        [path] = self._paths(1)
        return SchemaName(self._random.choice(_CATALOGS), path)

    def _table(self) -> TableName:
        schema = self._schema()
        return TableName(schema.catalog, schema.path, self._random.choice(_TABLES))

    def _paths(self, count: int) -> list[tuple[str, ...]]:
        return [
            tuple(self._random.choices(_LEVELS, k=self._random.randrange(1, 3)))
            for _ in range(count)
        ]
