"""The table of routes of the Iceberg REST catalog, and `/v1/config`, which lists them to clients.

Scan planning, remote signing and the token endpoint are not served, and not listed.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from arco.access.authorization import Operation
from arco.api.http.reply import Reply
from arco.api.http.request import Call, LenientQuery, QueryParams
from arco.api.http.route import AnyRoute, BodySpec, Route, json_body
from arco.api.iceberg.context import IcebergHandlerContext, json_reply
from arco.api.iceberg.namespaces import NamespaceHandlers
from arco.api.iceberg.queries import (
    ConfigQuery,
    IcebergDropQuery,
    IcebergPageQuery,
    LoadTableQuery,
    NamespacesQuery,
)
from arco.api.iceberg.tables import IcebergTableHandlers, MetricsReport, MetricsReportHandlers
from arco.api.iceberg.views import FunctionHandlers, IcebergViewHandlers
from arco.catalog.location import LOCATION_ROOT
from arco.core import json
from arco.iceberg.wire import (
    CommitTableRequest,
    CommitTransactionRequest,
    CommitViewRequest,
    CreateNamespaceRequest,
    CreateTableRequest,
    CreateViewRequest,
    RegisterTableRequest,
    RegisterViewRequest,
    RenameRequest,
    UpdatePropertiesRequest,
    read_request,
)

ROOT = "/iceberg"
SEPARATOR = "%1F"  # between the levels of a namespace, escaped as the specification wants it


# Served for clients that call it anyway. A client that finds it in the list expects credentials, and Arco
# vends none.
_NOT_LISTED = frozenset({Operation.ICEBERG_LOAD_CREDENTIALS})


class CatalogConfig(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """The body of `/v1/config`."""

    defaults: dict[str, str]
    overrides: dict[str, str]
    endpoints: tuple[str, ...]
    idempotency_key_lifetime: str


class ConfigHandlers:
    """Send the configuration of clients."""

    def __init__(self, context: IcebergHandlerContext) -> None:
        self._context = context
        self._endpoints: tuple[str, ...] = ()
        self._lifetime = iso_duration(context.services.key_life_ms)

    def set_routes(self, routes: Iterable[AnyRoute]) -> None:
        """Set the endpoints, once all routes, this one included, are declared."""
        listed = (route for route in routes if route.operation not in _NOT_LISTED)
        self._endpoints = tuple(endpoint(route) for route in listed)

    async def get(self, call: Call[ConfigQuery, None]) -> Reply:
        """The configuration for a catalog."""
        row = await self._context.iceberg.warehouse(call.query.warehouse or None)
        return json_reply(
            CatalogConfig(
                defaults=self._defaults(),
                # The id, so that a client keeps working when the catalog is renamed.
                overrides={"prefix": row.catalog_id, "namespace-separator": SEPARATOR},
                endpoints=self._endpoints,
                idempotency_key_lifetime=self._lifetime,
            )
        )

    def _defaults(self) -> dict[str, str]:
        """The location root of managed tables, and the settings to reach it."""
        config = json.decode(self._context.iceberg.context.config, dict[str, str])
        return {**config, LOCATION_ROOT: self._context.services.location_root}


def endpoint(route: AnyRoute) -> str:
    """A route as an endpoint of the specification."""
    return f"{route.method} {route.path.removeprefix(ROOT)}"


def iso_duration(ms: int) -> str:
    """Milliseconds as an ISO 8601 duration, rounded down to seconds."""
    hours, rest = divmod(ms // 1000, 3600)
    minutes, seconds = divmod(rest, 60)
    parts = ((hours, "H"), (minutes, "M"), (seconds, "S"))
    return "PT" + ("".join(f"{count}{unit}" for count, unit in parts if count) or "0S")


CATALOG = f"{ROOT}/v1/{{prefix}}"
NAMESPACES = f"{CATALOG}/namespaces"
NAMESPACE = f"{NAMESPACES}/{{namespace}}"
TABLES = f"{NAMESPACE}/tables"
TABLE = f"{TABLES}/{{table}}"
VIEWS = f"{NAMESPACE}/views"
VIEW = f"{VIEWS}/{{view}}"
FUNCTIONS = f"{NAMESPACE}/functions"

BODY_BYTES = 64 * 1024 * 1024  # a commit may carry many snapshots


def iceberg_routes(context: IcebergHandlerContext) -> tuple[AnyRoute, ...]:
    """Every route of the protocol."""
    config = ConfigHandlers(context)
    routes = (
        _catalog_read(f"{ROOT}/v1/config", Operation.ICEBERG_GET_CONFIG, config.get, ConfigQuery),
        *_namespaces(NamespaceHandlers(context)),
        *_tables(IcebergTableHandlers(context), MetricsReportHandlers(context)),
        *_views(IcebergViewHandlers(context)),
        *_functions(FunctionHandlers(context)),
    )
    config.set_routes(routes)
    return routes


def _namespaces(on: NamespaceHandlers) -> tuple[AnyRoute, ...]:
    return (
        _catalog_read(NAMESPACES, Operation.ICEBERG_LIST_NAMESPACES, on.page, NamespacesQuery),
        _write(
            "POST",
            NAMESPACES,
            Operation.ICEBERG_CREATE_NAMESPACE,
            on.create,
            _body(CreateNamespaceRequest),
        ),
        _catalog_read(NAMESPACE, Operation.ICEBERG_LOAD_NAMESPACE, on.load),
        _read("HEAD", NAMESPACE, Operation.ICEBERG_NAMESPACE_EXISTS, on.exists),
        _write("DELETE", NAMESPACE, Operation.ICEBERG_DROP_NAMESPACE, on.drop),
        _write(
            "POST",
            f"{NAMESPACE}/properties",
            Operation.ICEBERG_UPDATE_PROPERTIES,
            on.update,
            _body(UpdatePropertiesRequest),
        ),
    )


def _tables(on: IcebergTableHandlers, reports: MetricsReportHandlers) -> tuple[AnyRoute, ...]:
    return (
        _catalog_read(TABLES, Operation.ICEBERG_LIST_TABLES, on.page, reads_tables=True),
        _write(
            "POST", TABLES, Operation.ICEBERG_CREATE_TABLE, on.create, _body(CreateTableRequest)
        ),
        _read("GET", TABLE, Operation.ICEBERG_LOAD_TABLE, on.load, LoadTableQuery),
        _read("HEAD", TABLE, Operation.ICEBERG_TABLE_EXISTS, on.exists),
        _write("POST", TABLE, Operation.ICEBERG_UPDATE_TABLE, on.commit, _body(CommitTableRequest)),
        _write("DELETE", TABLE, Operation.ICEBERG_DROP_TABLE, on.drop, query=IcebergDropQuery),
        _write(
            "POST",
            f"{TABLE}/unregister",
            Operation.ICEBERG_UNREGISTER_TABLE,
            on.unregister,
            json_body(msgspec.Raw, {}, optional=True),
        ),
        _write(
            "POST",
            f"{NAMESPACE}/register",
            Operation.ICEBERG_REGISTER_TABLE,
            on.register,
            _body(RegisterTableRequest),
        ),
        _write(
            "POST",
            f"{CATALOG}/tables/rename",
            Operation.ICEBERG_RENAME_TABLE,
            on.rename,
            _body(RenameRequest),
        ),
        _read(
            "POST",
            f"{TABLE}/metrics",
            Operation.ICEBERG_REPORT_METRICS,
            reports.report,
            body=_body(MetricsReport),
        ),
        _read("GET", f"{TABLE}/credentials", Operation.ICEBERG_LOAD_CREDENTIALS, on.credentials),
        _write(
            "POST",
            f"{CATALOG}/transactions/commit",
            Operation.ICEBERG_COMMIT_TRANSACTION,
            on.commit_transaction,
            _body(CommitTransactionRequest),
        ),
    )


def _views(on: IcebergViewHandlers) -> tuple[AnyRoute, ...]:
    return (
        _catalog_read(VIEWS, Operation.ICEBERG_LIST_VIEWS, on.page, reads_tables=True),
        _write("POST", VIEWS, Operation.ICEBERG_CREATE_VIEW, on.create, _body(CreateViewRequest)),
        _read("GET", VIEW, Operation.ICEBERG_LOAD_VIEW, on.load),
        _read("HEAD", VIEW, Operation.ICEBERG_VIEW_EXISTS, on.exists),
        _write("POST", VIEW, Operation.ICEBERG_REPLACE_VIEW, on.replace, _body(CommitViewRequest)),
        _write("DELETE", VIEW, Operation.ICEBERG_DROP_VIEW, on.drop),
        _write(
            "POST",
            f"{CATALOG}/views/rename",
            Operation.ICEBERG_RENAME_VIEW,
            on.rename,
            _body(RenameRequest),
        ),
        _write(
            "POST",
            f"{NAMESPACE}/register-view",
            Operation.ICEBERG_REGISTER_VIEW,
            on.register,
            _body(RegisterViewRequest),
        ),
    )


def _functions(on: FunctionHandlers) -> tuple[AnyRoute, ...]:
    return (
        _read("GET", FUNCTIONS, Operation.ICEBERG_LIST_FUNCTIONS, on.page, IcebergPageQuery),
        _read("GET", f"{FUNCTIONS}/{{function}}", Operation.ICEBERG_LOAD_FUNCTION, on.load),
    )


def _body(body_type: Any) -> BodySpec[Any]:
    """A body of one type; the specification has the examples."""

    def decode(raw: bytes) -> Any:
        body = read_request(raw, body_type)
        json.refuse_duplicate_keys(raw)
        return body

    return BodySpec(decode, (body_type,), None)


def _read(
    method: str,
    path: str,
    operation: Operation,
    handler: Any,
    query: type[QueryParams] = LenientQuery,
    *,
    body: BodySpec[Any] | None = None,
) -> AnyRoute:
    """A route that changes nothing."""
    return Route(method, path, operation, handler, query, (), body, accepts_gzip=True)


def _catalog_read(
    path: str,
    operation: Operation,
    handler: Any,
    query: type[QueryParams] = LenientQuery,
    *,
    reads_tables: bool = False,
) -> AnyRoute:
    """A read of the catalog alone: its reply is cached. A list of tables or views is read page by page."""
    if reads_tables:
        query = IcebergPageQuery
    return Route(
        *("GET", path, operation, handler, query, ()), cacheable=True, reads_tables=reads_tables
    )


def _write(
    method: str,
    path: str,
    operation: Operation,
    handler: Any,
    body: BodySpec[Any] | None = None,
    *,
    query: type[QueryParams] = LenientQuery,
) -> AnyRoute:
    """A route that changes something, once if it has a key."""
    return Route(
        method,
        path,
        operation,
        handler,
        query,
        (),
        body,
        mutates=True,
        takes_key=True,
        body_bytes=BODY_BYTES,
        accepts_gzip=True,
    )
