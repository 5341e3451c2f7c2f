"""`Arco`: the client of one running Arco, for scripts, notebooks and the command line."""

from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import httpx2
import msgspec

from arco.client.events import EventsApi, QuarantineApi
from arco.client.models import (
    CommitInfo,
    DomainLagInfo,
    HealthInfo,
    ManifestInfo,
    ObjectChange,
    ObjectInfo,
    QueryResult,
    decode,
)
from arco.client.objects import (
    CatalogsApi,
    ColumnsApi,
    Name,
    SchemasApi,
    TablesApi,
    ViewsApi,
    diff,
    freshness,
    get_object,
    items,
)
from arco.client.runs import ExecutionsApi, FlowApi, RunsApi
from arco.client.transport import HttpRetryPolicy, Token, Transport, path
from arco.core import json
from arco.core.errors import Unavailable
from arco.core.runtime import Runtime

if TYPE_CHECKING:
    import pyarrow as pa

    from arco.query.lineage.response import Impact, Lineage

DEFAULT_URL = "http://127.0.0.1:8181"


class Arco:
    """A running Arco. Use it as a context manager, or call `close`. Threads may share it.

    `token` is a bearer token, or a function that returns one for each request. Errors are those of
    `arco.core.errors`. Lists are iterators that read further pages as they are needed.
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        token: Token | None = None,
        *,
        retry: HttpRetryPolicy | None = None,
        runtime: Runtime | None = None,
        http: httpx2.BaseTransport | None = None,
    ) -> None:
        self.transport = Transport(url, token=token, retry=retry, runtime=runtime, http=http)
        self.catalogs = CatalogsApi(self.transport)
        self.schemas = SchemasApi(self.transport)
        self.tables = TablesApi(self.transport)
        self.views = ViewsApi(self.transport)
        self.columns = ColumnsApi(self.transport)
        self.events = EventsApi(self.transport)
        self.quarantine = QuarantineApi(self.transport)
        self.runs = RunsApi(self.transport)
        self.executions = ExecutionsApi(self.transport)
        self.flow = FlowApi(self.transport)

    @property
    def url(self) -> str:
        """The URL of the server."""
        return self.transport.url

    def close(self) -> None:
        """Close the connections."""
        self.transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # Queries

    def query(self, sql: str, *, as_of: str | None = None, fresh: bool = False) -> QueryResult:
        """The rows of a read-only SQL query over the tables system.*.

        `fresh` adds events that were acknowledged and are not compacted yet.
        """
        return decode(self.transport.post("/query", _question(sql, as_of, fresh)), QueryResult)

    def query_arrow(self, sql: str, *, as_of: str | None = None, fresh: bool = False) -> "pa.Table":
        """The same as an Arrow table, for large results."""
        from arco.query.result import ARROW_STREAM, from_arrow

        question = _question(sql, as_of, fresh)
        return from_arrow(self.transport.post("/query", question, accept=ARROW_STREAM))

    def lineage(
        self,
        table: Name | None = None,
        *,
        table_id: str | None = None,
        direction: str | None = None,
        depth: int | None = None,
        columns: bool = False,
        runs: bool = False,
        as_of: str | None = None,
        fresh: bool = False,
    ) -> "Lineage":
        """What a table is made of (`up`) and what is made of it (`down`), perhaps with columns and runs.

        A table that is not in the catalog is named by `table_id`, such as external:s3://lake/in.
        """
        from arco.query.lineage.response import Lineage

        params = {
            "direction": direction,
            "depth": None if depth is None else str(depth),
            "columns": "true" if columns else None,
            "runs": "true" if runs else None,
            "as_of": as_of,
            "freshness": freshness(fresh),
        }
        return json.decode(
            self.transport.get(path("lineage", self._table_id(table, table_id)), params), Lineage
        )

    def impact(
        self,
        table: Name | None = None,
        column: str = "",
        *,
        table_id: str | None = None,
        direction: str | None = None,
        depth: int | None = None,
        as_of: str | None = None,
        fresh: bool = False,
    ) -> "Impact":
        """All that depends on a column of a table."""
        from arco.query.lineage.response import Impact

        params = {
            "impact": column,
            "direction": direction,
            "depth": None if depth is None else str(depth),
            "as_of": as_of,
            "freshness": freshness(fresh),
        }
        return json.decode(
            self.transport.get(path("lineage", self._table_id(table, table_id)), params), Impact
        )

    # The catalog's past

    def commits(self) -> Iterator[CommitInfo]:
        """The commits of the catalog, newest first."""
        return items(self.transport, "/commits", CommitInfo)

    def commit(self, number: int) -> CommitInfo:
        """One commit of the catalog."""
        return decode(self.transport.get(path("commits", str(number))), CommitInfo)

    def diff(self, start: str, end: str | None = None) -> Iterator[ObjectChange]:
        """All objects that changed from one point to another, or to now."""
        return diff(self.transport, start, end)

    def manifest(self, domain: str = "catalog", *, as_of: str | None = None) -> ManifestInfo:
        """What is published in a domain."""
        raw = self.transport.get(path("manifests", domain), {"as_of": as_of})
        return decode(raw, ManifestInfo)

    def object(
        self, object_id: str, *, as_of: str | None = None, dropped: bool = False
    ) -> ObjectInfo:
        """The object with an id, whatever its type; `dropped` finds it also if it was dropped."""
        return get_object(self.transport, object_id, as_of=as_of, dropped=dropped)

    # The server

    def health(self) -> HealthInfo:
        """The health of the server, with the reasons if it is degraded."""
        return decode(self.transport.get("/health", below=""), HealthInfo)

    def is_live(self) -> bool:
        """Whether the process answers."""
        return self._answers("/health/live")

    def is_ready(self) -> bool:
        """Whether it can serve requests."""
        return self._answers("/health/ready")

    def lag(self) -> tuple[DomainLagInfo, ...]:
        """How far compaction of each domain is behind."""
        return json.decode(self.transport.get("/lag"), _Lag).items

    def metrics(self) -> str:
        """The metrics of the server, in the text format of Prometheus."""
        return self.transport.get_text("/metrics")

    def openapi(self) -> dict[str, Any]:
        """The OpenAPI document of the server."""
        return json.decode(self.transport.get("/openapi.json"), dict)

    def _answers(self, where: str) -> bool:
        try:
            self.transport.get_text(where)
        except Unavailable:
            return False
        return True

    def _table_id(self, table: Name | None, table_id: str | None) -> str:
        return self.tables.get(table or "").id if table_id is None else table_id


class _Lag(msgspec.Struct):
    items: tuple[DomainLagInfo, ...]


def _question(sql: str, as_of: str | None, fresh: bool) -> dict[str, object]:  # noqa: FBT001
    body = {"sql": sql, "as_of": as_of, "freshness": freshness(fresh)}
    return {name: value for name, value in body.items() if value is not None}
