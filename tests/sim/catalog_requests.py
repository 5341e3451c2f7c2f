"""Random requests of every kind, drawn from so few names that they meet each other all the time."""

import random
from collections.abc import Callable

from arco.catalog import ddl
from arco.catalog.model import Sensitivity, TableFormat

from .catalog_notes import CatalogNotes

_CATALOGS = ("default", "default", "default", "c1")
_SCHEMAS = ("s1", "s1", "s2")
_TABLES = ("t1", "t1", "t2", "t3", "t4")
_COLUMNS = ("a", "b", "c")
_TYPES = ("bigint", "string", "int")


class RandomRequests:
    """The requests of one user."""

    def __init__(self, rng: random.Random, notes: CatalogNotes) -> None:
        self._rng = rng
        self._notes = notes
        self._kinds: list[tuple[Callable[[], ddl.Ddl], int]] = [
            (self._create_catalog, 1),
            (self._update_catalog, 1),
            (self._drop_catalog, 1),
            (self._create_schema, 4),
            (self._update_schema, 2),
            (self._drop_schema, 2),
            (self._create_table, 7),
            (self._update_table, 5),
            (self._drop_table, 4),
            (self._add_columns, 3),
            (self._update_column, 2),
            (self._drop_column, 2),
            (self._undrop, 6),
        ]

    def next(self) -> ddl.Ddl:
        """One more request."""
        if not self._notes.schemas:
            name = self._rng.choice((*_SCHEMAS, "s3", "s4"))
            return ddl.CreateSchema(catalog="default", name=name)
        if not self._notes.tables and self._rng.random() < 0.5:
            return self._create_table()
        kinds, weights = zip(*self._kinds, strict=True)
        draw: Callable[[], ddl.Ddl] = self._rng.choices(kinds, weights)[0]
        return draw()

    def _create_catalog(self) -> ddl.Ddl:
        return ddl.CreateCatalog(name=self._rng.choice(("default", "c1", "c1", "a/b")))

    def _update_catalog(self) -> ddl.Ddl:
        target = ddl.CatalogName(self._rng.choice(_CATALOGS))
        if self._rng.random() < 0.3:
            name = self._rng.choice(_CATALOGS)
            return ddl.UpdateCatalog(target=target, name=name, expected=self._expected())
        return ddl.UpdateCatalog(target=target, comment=self._word(), expected=self._expected())

    def _drop_catalog(self) -> ddl.Ddl:
        target = ddl.CatalogName(self._rng.choice(("c1", "c1", "c1", "c1", "default")))
        return ddl.DropCatalog(target=target, force=self._rng.random() < 0.2)

    def _create_schema(self) -> ddl.Ddl:
        catalog, path = self._path()
        parent = path if self._rng.random() < 0.3 else ()
        name = self._rng.choice(_SCHEMAS)
        return ddl.CreateSchema(catalog=catalog, parent=parent, name=name, comment=self._word())

    def _update_schema(self) -> ddl.Ddl:
        target = self._schema()
        if self._rng.random() < 0.6:
            name = self._rng.choice(_SCHEMAS)
            return ddl.UpdateSchema(target=target, name=name, expected=self._expected())
        return ddl.UpdateSchema(target=target, properties={"k": self._word(), "gone": None})

    def _drop_schema(self) -> ddl.Ddl:
        return ddl.DropSchema(target=self._schema(), force=self._rng.random() < 0.4)

    def _create_table(self) -> ddl.Ddl:
        return ddl.CreateTable(
            schema=self._schema(),
            name=self._rng.choice(_TABLES),
            format=self._rng.choice((TableFormat.PARQUET, TableFormat.CSV)),
            columns=tuple(self._column(name) for name in _COLUMNS[: self._rng.randint(0, 2)]),
            tags=("new",),
        )

    def _update_table(self) -> ddl.Ddl:
        target = self._table()
        way = self._rng.random()
        if way < 0.3:
            name = self._rng.choice(_TABLES)
            return ddl.UpdateTable(target=target, name=name, expected=self._expected())
        if way < 0.8:
            catalog, path = self._path()
            if catalog == target.catalog:
                return ddl.UpdateTable(target=target, schema=path)
            return ddl.UpdateTable(target=target, catalog=catalog, schema=path)
        return ddl.UpdateTable(target=target, comment=self._word(), tags=("x", "y"), owner="user:z")

    def _drop_table(self) -> ddl.Ddl:
        return ddl.DropTable(target=self._table(), expected=self._expected())

    def _add_columns(self) -> ddl.Ddl:
        columns = (self._column(self._rng.choice(_COLUMNS)),)
        position = self._rng.choice((None, None, 0, 2))
        return ddl.AddColumns(target=self._table(), columns=columns, position=position)

    def _update_column(self) -> ddl.Ddl:
        target, column = self._table(), self._rng.choice(_COLUMNS)
        if self._rng.random() < 0.5:
            name = self._rng.choice(_COLUMNS)
            return ddl.UpdateColumn(target=target, column=column, name=name)
        return ddl.UpdateColumn(target=target, column=column, position=0, pii_type="email")

    def _drop_column(self) -> ddl.Ddl:
        return ddl.DropColumn(target=self._table(), column=self._rng.choice(_COLUMNS))

    def _undrop(self) -> ddl.Ddl:
        recent_ids = self._notes.ids[-6:]
        object_id = self._rng.choice(recent_ids) if recent_ids else "nobody"
        name = self._rng.choice((None, None, "t2"))
        return ddl.Undrop(id=object_id, name=name)

    def _path(self) -> tuple[str, tuple[str, ...]]:
        recent_schemas = self._notes.schemas[-4:]
        if recent_schemas and self._rng.random() < 0.7:
            schema = self._rng.choice(recent_schemas)
            return schema.catalog, schema.path
        catalog = self._rng.choice(_CATALOGS)
        levels = 2 if self._rng.random() < 0.2 else 1
        return catalog, tuple(self._rng.choice(_SCHEMAS) for _ in range(levels))

    def _schema(self) -> ddl.SchemaName:
        return ddl.SchemaName(*self._path())

    def _table(self) -> ddl.TableName:
        recent_tables = self._notes.tables[-4:]
        if recent_tables and self._rng.random() < 0.7:
            return self._rng.choice(recent_tables)
        catalog, path = self._path()
        return ddl.TableName(catalog, path, self._rng.choice(_TABLES))

    def _column(self, name: str) -> ddl.ColumnSpec:
        personal = self._rng.random() < 0.2
        return ddl.ColumnSpec(
            name=name,
            data_type=self._rng.choice(_TYPES),
            nullable=self._rng.random() < 0.5,
            pii_type="name" if personal else None,
            sensitivity=Sensitivity.RESTRICTED if personal else None,
        )

    def _expected(self) -> int | None:
        recent_numbers = self._notes.numbers[-3:]
        return (
            self._rng.choice(recent_numbers)
            if recent_numbers and self._rng.random() < 0.15
            else None
        )

    def _word(self) -> str:
        return self._rng.choice(("one", "two", "three"))
