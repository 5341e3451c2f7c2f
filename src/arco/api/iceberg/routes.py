"""The table of routes of the Iceberg REST catalog. What `/v1/config` tells clients is made from it.

Scan planning, remote signing and the token endpoint are not served, and so not told of.
"""

from typing import Any

import msgspec

from arco.access.authorization import Operation
from arco.api.iceberg.config import ROOT, Config
from arco.api.iceberg.desk import IcebergDesk
from arco.api.iceberg.functions import Functions
from arco.api.iceberg.namespaces import Namespaces
from arco.api.iceberg.queries import ConfigQuery, DropQuery, LoadQuery, NamespacesQuery, PageQuery
from arco.api.iceberg.reports import Report, Reports
from arco.api.iceberg.tables import Tables
from arco.api.iceberg.views import Views
from arco.api.query_params import OpenQuery, Query
from arco.api.route import AnyRoute, Route, Sent
from arco.api.verbs import says
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

CATALOG = f"{ROOT}/v1/{{prefix}}"
NAMESPACES = f"{CATALOG}/namespaces"
NAMESPACE = f"{NAMESPACES}/{{namespace}}"
TABLES = f"{NAMESPACE}/tables"
TABLE = f"{TABLES}/{{table}}"
VIEWS = f"{NAMESPACE}/views"
VIEW = f"{VIEWS}/{{view}}"
FUNCTIONS = f"{NAMESPACE}/functions"

BODY_BYTES = 64 * 1024 * 1024  # a commit may carry many snapshots


def iceberg_routes(desk: IcebergDesk) -> tuple[AnyRoute, ...]:
    """Every route of the protocol."""
    config = Config(desk)
    routes = (
        _read("GET", f"{ROOT}/v1/config", Operation.ICEBERG_GET_CONFIG, config.get, ConfigQuery),
        *_namespaces(Namespaces(desk)),
        *_tables(Tables(desk), Reports(desk)),
        *_views(Views(desk)),
        *_functions(Functions(desk)),
    )
    config.set_routes(routes)
    return routes


def _namespaces(on: Namespaces) -> tuple[AnyRoute, ...]:
    return (
        _read("GET", NAMESPACES, Operation.ICEBERG_LIST_NAMESPACES, on.page, NamespacesQuery),
        _write(
            "POST",
            NAMESPACES,
            Operation.ICEBERG_CREATE_NAMESPACE,
            on.create,
            _sent(CreateNamespaceRequest),
        ),
        _read("GET", NAMESPACE, Operation.ICEBERG_LOAD_NAMESPACE, on.load),
        _read("HEAD", NAMESPACE, Operation.ICEBERG_NAMESPACE_EXISTS, on.exists),
        _write("DELETE", NAMESPACE, Operation.ICEBERG_DROP_NAMESPACE, on.drop),
        _write(
            "POST",
            f"{NAMESPACE}/properties",
            Operation.ICEBERG_UPDATE_PROPERTIES,
            on.update,
            _sent(UpdatePropertiesRequest),
        ),
    )


def _tables(on: Tables, reports: Reports) -> tuple[AnyRoute, ...]:
    return (
        _read("GET", TABLES, Operation.ICEBERG_LIST_TABLES, on.page, PageQuery),
        _write(
            "POST", TABLES, Operation.ICEBERG_CREATE_TABLE, on.create, _sent(CreateTableRequest)
        ),
        _read("GET", TABLE, Operation.ICEBERG_LOAD_TABLE, on.load, LoadQuery),
        _read("HEAD", TABLE, Operation.ICEBERG_TABLE_EXISTS, on.exists),
        _write("POST", TABLE, Operation.ICEBERG_UPDATE_TABLE, on.commit, _sent(CommitTableRequest)),
        _write("DELETE", TABLE, Operation.ICEBERG_DROP_TABLE, on.drop, query=DropQuery),
        _write(
            "POST",
            f"{TABLE}/unregister",
            Operation.ICEBERG_UNREGISTER_TABLE,
            on.unregister,
            Sent(lambda raw: json.decode(raw, msgspec.Raw), (msgspec.Raw,), {}, optional=True),
        ),
        _write(
            "POST",
            f"{NAMESPACE}/register",
            Operation.ICEBERG_REGISTER_TABLE,
            on.register,
            _sent(RegisterTableRequest),
        ),
        _write(
            "POST",
            f"{CATALOG}/tables/rename",
            Operation.ICEBERG_RENAME_TABLE,
            on.rename,
            _sent(RenameRequest),
        ),
        _read(
            "POST",
            f"{TABLE}/metrics",
            Operation.ICEBERG_REPORT_METRICS,
            reports.report,
            body=_sent(Report),
        ),
        _read("GET", f"{TABLE}/credentials", Operation.ICEBERG_LOAD_CREDENTIALS, on.credentials),
        _write(
            "POST",
            f"{CATALOG}/transactions/commit",
            Operation.ICEBERG_COMMIT_TRANSACTION,
            on.commit_transaction,
            _sent(CommitTransactionRequest),
        ),
    )


def _views(on: Views) -> tuple[AnyRoute, ...]:
    return (
        _read("GET", VIEWS, Operation.ICEBERG_LIST_VIEWS, on.page, PageQuery),
        _write("POST", VIEWS, Operation.ICEBERG_CREATE_VIEW, on.create, _sent(CreateViewRequest)),
        _read("GET", VIEW, Operation.ICEBERG_LOAD_VIEW, on.load),
        _read("HEAD", VIEW, Operation.ICEBERG_VIEW_EXISTS, on.exists),
        _write("POST", VIEW, Operation.ICEBERG_REPLACE_VIEW, on.replace, _sent(CommitViewRequest)),
        _write("DELETE", VIEW, Operation.ICEBERG_DROP_VIEW, on.drop),
        _write(
            "POST",
            f"{CATALOG}/views/rename",
            Operation.ICEBERG_RENAME_VIEW,
            on.rename,
            _sent(RenameRequest),
        ),
        _write(
            "POST",
            f"{NAMESPACE}/register-view",
            Operation.ICEBERG_REGISTER_VIEW,
            on.register,
            _sent(RegisterViewRequest),
        ),
    )


def _functions(on: Functions) -> tuple[AnyRoute, ...]:
    return (
        _read("GET", FUNCTIONS, Operation.ICEBERG_LIST_FUNCTIONS, on.page, PageQuery),
        _read("GET", f"{FUNCTIONS}/{{function}}", Operation.ICEBERG_LOAD_FUNCTION, on.load),
    )


def _sent(kind: Any) -> Sent[Any]:
    """A body of one type; the specification has the examples."""

    def read(raw: bytes) -> Any:
        found = read_request(raw, kind)
        json.refuse_duplicate_keys(raw)
        return found

    return Sent(read, (kind,), None)


def _read(
    method: str,
    path: str,
    operation: Operation,
    handler: Any,
    query: type[Query] = OpenQuery,
    *,
    body: Sent[Any] | None = None,
) -> AnyRoute:
    """A route that changes nothing."""
    return Route(method, path, operation, says(handler), handler, query, (), body, inflates=True)


def _write(
    method: str,
    path: str,
    operation: Operation,
    handler: Any,
    body: Sent[Any] | None = None,
    *,
    query: type[Query] = OpenQuery,
) -> AnyRoute:
    """A route that changes something, once if it has a key."""
    return Route(
        method,
        path,
        operation,
        says(handler),
        handler,
        query,
        (),
        body,
        mutates=True,
        keyed=True,
        body_bytes=BODY_BYTES,
        inflates=True,
    )
