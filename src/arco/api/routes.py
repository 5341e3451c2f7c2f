"""The table of routes of the native API, each with its operation, types and responses.

The OpenAPI document is made from it.
"""

from typing import Any

from arco.access.authorization import Operation
from arco.api.commits import CommitHandlers
from arco.api.context import API, HandlerContext
from arco.api.events import EventHandlers, events_route
from arco.api.flow.routes import flow_routes
from arco.api.health import HealthChecks, health_routes
from arco.api.health_monitor import Lag, LagReader
from arco.api.http.openapi import DocsPages
from arco.api.http.reply import JSON, Reply
from arco.api.http.request import (
    AtQuery,
    Call,
    DiffQuery,
    DropQuery,
    ListQuery,
    ObjectQuery,
    PageQuery,
    QueryParams,
    SchemaListQuery,
    TableListQuery,
)
from arco.api.http.route import (
    AnyRoute,
    ResponseSpec,
    Route,
    create_route,
    drop_route,
    get_route,
    json_body,
    public_route,
    update_route,
)
from arco.api.lineage import LineageHandlers, lineage_route
from arco.api.objects import ObjectHandlers
from arco.api.operations.runs import ExecutionHandlers, execution_routes
from arco.api.operations.tables import TableFactHandlers, table_fact_routes
from arco.api.quarantine import QuarantineHandlers, quarantine_route
from arco.api.requests import (
    CatalogChanges,
    ColumnChanges,
    NewCatalog,
    NewSchema,
    NewTable,
    NewView,
    QueryRequest,
    SchemaChanges,
    TableChanges,
    UndropRequest,
    ViewChanges,
)
from arco.api.responses import (
    AddedColumns,
    AnyObjectResponse,
    CatalogPage,
    CatalogResponse,
    ColumnResponse,
    CommitEntry,
    CommitPage,
    DiffPage,
    ManifestEntry,
    ObjectHistory,
    QueryResponse,
    SchemaPage,
    SchemaResponse,
    SchemaVersionPage,
    TablePage,
    TableResponse,
    ViewPage,
    ViewResponse,
)
from arco.api.schemas import CatalogHandlers, SchemaHandlers
from arco.api.services import Services
from arco.api.tables import COLUMNS_BODY, ColumnHandlers, TableHandlers
from arco.api.views import ViewHandlers
from arco.query.result import ARROW_STREAM, to_arrow, to_json


class QueryHandlers:
    """Run read-only SQL."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def run(self, call: Call[QueryParams, QueryRequest]) -> Reply:
        """Answer one query."""
        request = call.body
        table = await self._services.engine.query(
            request.sql, as_of=request.as_of, freshness=request.freshness, caller=call.caller
        )
        encode, content_type = (to_arrow, ARROW_STREAM) if _accepts_arrow(call) else (to_json, JSON)
        body = await self._services.runtime.tasks.in_thread(lambda: encode(table))
        return Reply(200, body, content_type, headers={"Vary": "Accept"})


def _accepts_arrow(call: Call[QueryParams, QueryRequest]) -> bool:
    """Whether Accept names Arrow; otherwise the result is JSON."""
    accepted = (call.header(b"accept") or "").lower()
    types = [part.partition(";") for part in accepted.split(",")]
    return any(
        name.strip() == ARROW_STREAM and weight.replace(" ", "") not in {"q=0", "q=0.0"}
        for name, _, weight in types
    )


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


def native_routes(
    context: HandlerContext, health: HealthChecks, pages: DocsPages
) -> tuple[AnyRoute, ...]:
    """Every route of the native API."""
    return (
        *_catalogs(CatalogHandlers(context)),
        *_schemas(SchemaHandlers(context)),
        *_tables(TableHandlers(context)),
        *_columns(ColumnHandlers(context)),
        *_views(ViewHandlers(context)),
        *_objects(ObjectHandlers(context)),
        *_commits(CommitHandlers(context)),
        _query(QueryHandlers(context.services)),
        events_route(EventHandlers(context.services), context.services.limits.events_bytes),
        *execution_routes(ExecutionHandlers(context.services)),
        *table_fact_routes(TableFactHandlers(context.services)),
        *flow_routes(context.services),
        lineage_route(LineageHandlers(context.services)),
        _lag(LagReader(context.services.runtime, context.services.domains)),
        quarantine_route(QuarantineHandlers(context.services)),
        *health_routes(health),
        *_docs(pages),
    )


def _catalogs(on: CatalogHandlers) -> tuple[AnyRoute, ...]:
    return (
        create_route(
            CATALOGS,
            Operation.CREATE_CATALOG,
            on.create,
            json_body(NewCatalog, {"name": "sales", **_DESCRIBED}),
            CatalogResponse,
            problems=(409,),
        ),
        get_route(CATALOGS, Operation.LIST_CATALOGS, on.page, ListQuery, CatalogPage),
        get_route(CATALOG, Operation.GET_CATALOG, on.get, AtQuery, CatalogResponse),
        update_route(
            CATALOG,
            Operation.UPDATE_CATALOG,
            on.update,
            json_body(CatalogChanges, {"comment": "Everything about sales"}),
            CatalogResponse,
        ),
        drop_route(CATALOG, Operation.DROP_CATALOG, on.drop, DropQuery),
    )


def _schemas(on: SchemaHandlers) -> tuple[AnyRoute, ...]:
    return (
        create_route(
            SCHEMAS,
            Operation.CREATE_SCHEMA,
            on.create,
            json_body(NewSchema, {"name": "europe", "parent": ["raw"], **_DESCRIBED}),
            SchemaResponse,
            problems=(404, 409),
        ),
        get_route(SCHEMAS, Operation.LIST_SCHEMAS, on.page, SchemaListQuery, SchemaPage),
        get_route(SCHEMA, Operation.GET_SCHEMA, on.get, AtQuery, SchemaResponse),
        update_route(
            SCHEMA,
            Operation.UPDATE_SCHEMA,
            on.update,
            json_body(SchemaChanges, {"owner": "group:sales"}),
            SchemaResponse,
        ),
        drop_route(SCHEMA, Operation.DROP_SCHEMA, on.drop, DropQuery),
    )


def _tables(on: TableHandlers) -> tuple[AnyRoute, ...]:
    return (
        create_route(
            TABLES,
            Operation.CREATE_TABLE,
            on.create,
            json_body(
                NewTable, {"name": "orders", "format": "PARQUET", "columns": _COLUMNS, **_DESCRIBED}
            ),
            TableResponse,
            problems=(404, 409),
        ),
        get_route(
            TABLES, Operation.LIST_TABLES, on.page, TableListQuery, TablePage, reads_tables=True
        ),
        get_route(TABLE, Operation.GET_TABLE, on.get, AtQuery, TableResponse, reads_tables=True),
        update_route(
            TABLE,
            Operation.UPDATE_TABLE,
            on.update,
            json_body(TableChanges, {"name": "orders_2026", "schema": ["archive"]}),
            TableResponse,
        ),
        drop_route(TABLE, Operation.DROP_TABLE, on.drop, QueryParams),
        get_route(
            f"{TABLE}/schema-history",
            Operation.GET_SCHEMA_HISTORY,
            on.schema_history,
            PageQuery,
            SchemaVersionPage,
            reads_tables=True,
        ),
    )


def _columns(on: ColumnHandlers) -> tuple[AnyRoute, ...]:
    return (
        create_route(
            COLUMNS,
            Operation.ADD_COLUMN,
            on.add,
            COLUMNS_BODY,
            ColumnResponse | AddedColumns,
            problems=(404, 409, 412),
            takes_if_match=True,
        ),
        update_route(
            COLUMN,
            Operation.UPDATE_COLUMN,
            on.update,
            json_body(ColumnChanges, {"data_type": "bigint", "comment": None}),
            ColumnResponse,
        ),
        drop_route(COLUMN, Operation.DROP_COLUMN, on.drop, QueryParams),
    )


def _views(on: ViewHandlers) -> tuple[AnyRoute, ...]:
    return (
        create_route(
            VIEWS,
            Operation.CREATE_VIEW,
            on.create,
            json_body(
                NewView,
                {
                    "name": "open_orders",
                    "sql": "SELECT id, email FROM orders WHERE open",
                    "dialect": "spark",
                    "columns": _COLUMNS,
                    **_DESCRIBED,
                },
            ),
            ViewResponse,
            problems=(404, 409, 501),
        ),
        get_route(VIEWS, Operation.LIST_VIEWS, on.page, ListQuery, ViewPage, reads_tables=True),
        get_route(VIEW, Operation.GET_VIEW, on.get, AtQuery, ViewResponse, cacheable=False),
        update_route(
            VIEW,
            Operation.UPDATE_VIEW,
            on.update,
            json_body(ViewChanges, {"sql": "SELECT id, email FROM orders", "dialect": "spark"}),
            ViewResponse,
        ),
        drop_route(VIEW, Operation.DROP_VIEW, on.drop, QueryParams),
    )


def _objects(on: ObjectHandlers) -> tuple[AnyRoute, ...]:
    return (
        get_route(
            OBJECT, Operation.GET_OBJECT, on.get, ObjectQuery, AnyObjectResponse, reads_tables=True
        ),
        get_route(
            f"{OBJECT}/history", Operation.GET_OBJECT_HISTORY, on.history, PageQuery, ObjectHistory
        ),
        Route(
            "POST",
            f"{OBJECT}/undrop",
            Operation.UNDROP_OBJECT,
            on.undrop,
            QueryParams,
            (ResponseSpec(200, "The object, there again.", AnyObjectResponse),),
            json_body(UndropRequest, {}, optional=True),
            problems=(404, 409, 422),
            mutates=True,
            takes_key=True,
        ),
    )


def _commits(on: CommitHandlers) -> tuple[AnyRoute, ...]:
    return (
        get_route(f"{API}/commits", Operation.LIST_COMMITS, on.page, PageQuery, CommitPage),
        get_route(
            f"{API}/commits/{{number}}",
            Operation.GET_COMMIT,
            on.get,
            QueryParams,
            CommitEntry,
            cacheable=False,
        ),
        get_route(f"{API}/diff", Operation.DIFF, on.diff, DiffQuery, DiffPage),
        get_route(
            f"{API}/manifests/{{domain}}",
            Operation.GET_MANIFEST,
            on.manifest,
            AtQuery,
            ManifestEntry,
            cacheable=False,
        ),
    )


def _query(on: QueryHandlers) -> AnyRoute:
    return Route(
        "POST",
        f"{API}/query",
        Operation.QUERY,
        on.run,
        QueryParams,
        (ResponseSpec(200, "The result.", QueryResponse, (ARROW_STREAM,)),),
        json_body(QueryRequest, {"sql": "SELECT name, format FROM system.tables LIMIT 10"}),
        problems=(404,),
        has_etag=False,
        runs_sql=True,
    )


def _lag(on: LagReader) -> AnyRoute:
    return Route(
        "GET",
        f"{API}/lag",
        Operation.GET_LAG,
        on.get,
        QueryParams,
        (ResponseSpec(200, "The lag.", Lag),),
        has_etag=False,
    )


def _docs(on: DocsPages) -> tuple[AnyRoute, ...]:
    content_types = {"docs": "text/html", "docs.css": "text/css", "docs.js": "text/javascript"}
    return (
        public_route(
            f"{API}/openapi.json",
            Operation.OPENAPI,
            on.openapi,
            ResponseSpec(200, "This document.", dict[str, Any]),
        ),
        *(
            public_route(
                f"{API}/{name}",
                Operation.DOCS,
                on.docs,
                ResponseSpec(200, "The page.", str, content_type=content_type),
            )
            for name, content_type in content_types.items()
        ),
    )
