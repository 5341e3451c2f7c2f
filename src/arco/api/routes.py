"""The one table of routes: each with its operation, its types, and what it answers.

Whoever wants to know what the API does reads this file; the OpenAPI document is made from it.
"""

from typing import Any

from arco.access.authorization import Operation
from arco.api.catalogs import Catalogs
from arco.api.columns import COLUMNS_SENT, Columns
from arco.api.commits import Commits
from arco.api.desk import API, Desk
from arco.api.events import Events, events_route
from arco.api.flow.routes import flow_routes
from arco.api.health import HealthChecks
from arco.api.health_report import HealthReport
from arco.api.lag import Lag, Lags
from arco.api.lineage import Lineages, lineage_route
from arco.api.objects import Objects
from arco.api.operations.routes import operations_routes
from arco.api.pages import Pages
from arco.api.quarantine import Quarantine, quarantine_route
from arco.api.query import Queries
from arco.api.query_params import (
    AtQuery,
    DiffQuery,
    DropQuery,
    ListQuery,
    ObjectQuery,
    PageQuery,
    Query,
    SchemaListQuery,
    TableListQuery,
)
from arco.api.route import Answered, AnyRoute, Route, Sent, read_document, sent
from arco.api.schemas import Schemas
from arco.api.tables import Tables
from arco.api.verbs import changed, dropped, got, made, public, says
from arco.api.views import Views
from arco.api.wire import (
    AddedColumns,
    AnyThing,
    CatalogChanges,
    CatalogPage,
    CatalogThing,
    ColumnChanges,
    ColumnThing,
    CommitEntry,
    CommitPage,
    DiffPage,
    Health,
    History,
    ManifestEntry,
    NewCatalog,
    NewSchema,
    NewTable,
    NewView,
    Question,
    Result,
    SchemaChanges,
    SchemaPage,
    SchemaThing,
    SchemaVersionPage,
    TableChanges,
    TablePage,
    TableThing,
    UndropWish,
    ViewChanges,
    ViewPage,
    ViewThing,
)
from arco.query.result import ARROW_STREAM

CATALOGS = f"{API}/catalogs"
CATALOG = f"{CATALOGS}/{{catalog}}"
SCHEMAS = f"{CATALOG}/schemas"
SCHEMA = f"{SCHEMAS}/{{schema}}"
TABLES = f"{SCHEMA}/tables"
TABLE = f"{TABLES}/{{table}}"
COLUMNS = f"{TABLE}/columns"
VIEWS = f"{SCHEMA}/views"
VIEW = f"{VIEWS}/{{view}}"
COLUMN = f"{COLUMNS}/{{column}}"
OBJECT = f"{API}/objects/{{id}}"

_DESCRIBED = {"comment": "What was sold", "properties": {"team": "sales"}, "tags": ["gold"]}
_COLUMNS = [
    {"name": "id", "data_type": "bigint", "nullable": False},
    {"name": "email", "data_type": "string", "pii_type": "email", "sensitivity": "CONFIDENTIAL"},
]


def native_routes(desk: Desk, health: HealthChecks, pages: Pages) -> tuple[AnyRoute, ...]:
    """Every route of the native API."""
    return (
        *_catalogs(Catalogs(desk)),
        *_schemas(Schemas(desk)),
        *_tables(Tables(desk)),
        *_columns(Columns(desk)),
        *_views(Views(desk)),
        *_objects(Objects(desk)),
        *_commits(Commits(desk)),
        _query(Queries(desk.services)),
        events_route(Events(desk.services), desk.services.limits.events_bytes),
        *operations_routes(desk.services),
        *flow_routes(desk.services),
        lineage_route(Lineages(desk.services)),
        _lag(Lags(desk.services.runtime, desk.services.domains)),
        quarantine_route(Quarantine(desk.services)),
        *health_routes(health),
        *_pages(pages),
    )


def _catalogs(on: Catalogs) -> tuple[AnyRoute, ...]:
    return (
        made(
            CATALOGS,
            Operation.CREATE_CATALOG,
            on.create,
            sent(NewCatalog, {"name": "sales", **_DESCRIBED}),
            CatalogThing,
            problems=(409,),
        ),
        got(CATALOGS, Operation.LIST_CATALOGS, on.page, ListQuery, CatalogPage),
        got(CATALOG, Operation.GET_CATALOG, on.get, AtQuery, CatalogThing),
        changed(
            CATALOG,
            Operation.UPDATE_CATALOG,
            on.update,
            sent(CatalogChanges, {"comment": "Everything about sales"}),
            CatalogThing,
        ),
        dropped(CATALOG, Operation.DROP_CATALOG, on.drop, DropQuery),
    )


def _schemas(on: Schemas) -> tuple[AnyRoute, ...]:
    return (
        made(
            SCHEMAS,
            Operation.CREATE_SCHEMA,
            on.create,
            sent(NewSchema, {"name": "europe", "parent": ["raw"], **_DESCRIBED}),
            SchemaThing,
            problems=(404, 409),
        ),
        got(SCHEMAS, Operation.LIST_SCHEMAS, on.page, SchemaListQuery, SchemaPage),
        got(SCHEMA, Operation.GET_SCHEMA, on.get, AtQuery, SchemaThing),
        changed(
            SCHEMA,
            Operation.UPDATE_SCHEMA,
            on.update,
            sent(SchemaChanges, {"owner": "group:sales"}),
            SchemaThing,
        ),
        dropped(SCHEMA, Operation.DROP_SCHEMA, on.drop, DropQuery),
    )


def _tables(on: Tables) -> tuple[AnyRoute, ...]:
    return (
        made(
            TABLES,
            Operation.CREATE_TABLE,
            on.create,
            sent(
                NewTable, {"name": "orders", "format": "PARQUET", "columns": _COLUMNS, **_DESCRIBED}
            ),
            TableThing,
            problems=(404, 409),
        ),
        got(TABLES, Operation.LIST_TABLES, on.page, TableListQuery, TablePage, tables=True),
        got(TABLE, Operation.GET_TABLE, on.get, AtQuery, TableThing, tables=True),
        changed(
            TABLE,
            Operation.UPDATE_TABLE,
            on.update,
            sent(TableChanges, {"name": "orders_2026", "schema": ["archive"]}),
            TableThing,
        ),
        dropped(TABLE, Operation.DROP_TABLE, on.drop, Query),
        got(
            f"{TABLE}/schema-history",
            Operation.GET_SCHEMA_HISTORY,
            on.schema_history,
            PageQuery,
            SchemaVersionPage,
            tables=True,
        ),
    )


def _columns(on: Columns) -> tuple[AnyRoute, ...]:
    return (
        made(
            COLUMNS,
            Operation.ADD_COLUMN,
            on.add,
            COLUMNS_SENT,
            ColumnThing | AddedColumns,
            problems=(404, 409, 412),
            matched=True,
        ),
        changed(
            COLUMN,
            Operation.UPDATE_COLUMN,
            on.update,
            sent(ColumnChanges, {"data_type": "bigint", "comment": None}),
            ColumnThing,
        ),
        dropped(COLUMN, Operation.DROP_COLUMN, on.drop, Query),
    )


def _views(on: Views) -> tuple[AnyRoute, ...]:
    return (
        made(
            VIEWS,
            Operation.CREATE_VIEW,
            on.create,
            sent(
                NewView,
                {
                    "name": "open_orders",
                    "sql": "SELECT id, email FROM orders WHERE open",
                    "dialect": "spark",
                    "columns": _COLUMNS,
                    **_DESCRIBED,
                },
            ),
            ViewThing,
            problems=(404, 409, 501),
        ),
        got(VIEWS, Operation.LIST_VIEWS, on.page, ListQuery, ViewPage, tables=True),
        got(VIEW, Operation.GET_VIEW, on.get, AtQuery, ViewThing, pure=False),
        changed(
            VIEW,
            Operation.UPDATE_VIEW,
            on.update,
            sent(ViewChanges, {"sql": "SELECT id, email FROM orders", "dialect": "spark"}),
            ViewThing,
        ),
        dropped(VIEW, Operation.DROP_VIEW, on.drop, Query),
    )


def _objects(on: Objects) -> tuple[AnyRoute, ...]:
    return (
        got(OBJECT, Operation.GET_OBJECT, on.get, ObjectQuery, AnyThing, tables=True),
        got(
            f"{OBJECT}/history",
            Operation.GET_OBJECT_HISTORY,
            on.history,
            PageQuery,
            History,
        ),
        Route(
            "POST",
            f"{OBJECT}/undrop",
            Operation.UNDROP_OBJECT,
            says(on.undrop),
            on.undrop,
            Query,
            (Answered(200, "The object, there again.", AnyThing),),
            Sent(lambda raw: read_document(raw, UndropWish), (UndropWish,), {}, optional=True),
            problems=(404, 409, 422),
            mutates=True,
            keyed=True,
        ),
    )


def _commits(on: Commits) -> tuple[AnyRoute, ...]:
    return (
        got(f"{API}/commits", Operation.LIST_COMMITS, on.page, PageQuery, CommitPage),
        got(
            f"{API}/commits/{{number}}",
            Operation.GET_COMMIT,
            on.get,
            Query,
            CommitEntry,
            pure=False,
        ),
        got(f"{API}/diff", Operation.DIFF, on.diff, DiffQuery, DiffPage),
        got(
            f"{API}/manifests/{{domain}}",
            Operation.GET_MANIFEST,
            on.manifest,
            AtQuery,
            ManifestEntry,
            pure=False,
        ),
    )


def _query(on: Queries) -> AnyRoute:
    return Route(
        "POST",
        f"{API}/query",
        Operation.QUERY,
        says(on.ask),
        on.ask,
        Query,
        (Answered(200, "The result.", Result, also=(ARROW_STREAM,)),),
        sent(Question, {"sql": "SELECT name, format FROM system.tables LIMIT 10"}),
        problems=(404,),
        tagged=False,
        queries=True,
    )


def _lag(on: Lags) -> AnyRoute:
    return Route(
        "GET",
        f"{API}/lag",
        Operation.GET_LAG,
        says(on.get),
        on.get,
        Query,
        (Answered(200, "The lag.", Lag),),
        tagged=False,
    )


def health_routes(on: HealthChecks) -> tuple[AnyRoute, ...]:
    """What every process of ours answers to whoever runs it."""
    return (
        public("/health", Operation.HEALTH, on.report, Answered(200, "The report.", HealthReport)),
        public("/health/live", Operation.HEALTH, on.live, Answered(200, "It lives.", Health)),
        public("/health/ready", Operation.HEALTH, on.ready, Answered(200, "Ready.", Health)),
        public(
            "/metrics",
            Operation.METRICS,
            on.metrics,
            Answered(200, "The metrics.", str, content_type="text/plain"),
        ),
    )


def _pages(on: Pages) -> tuple[AnyRoute, ...]:
    kinds = {"docs": "text/html", "docs.css": "text/css", "docs.js": "text/javascript"}
    return (
        public(
            f"{API}/openapi.json",
            Operation.OPENAPI,
            on.openapi,
            Answered(200, "This document.", dict[str, Any]),
        ),
        *(
            public(
                f"{API}/{name}",
                Operation.DOCS,
                on.docs,
                Answered(200, "The page.", str, content_type=kind),
            )
            for name, kind in kinds.items()
        ),
    )
