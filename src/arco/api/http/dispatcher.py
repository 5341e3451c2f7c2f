"""The dispatcher: takes a request through identity, authorization, decoding and its handler to its reply.

Each served protocol has one, with its own table of routes and its own error format. Every error becomes a
reply here; nothing that a handler raises reaches the server.
"""

from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

from arco.access.authorization import PUBLIC_OPERATIONS, AccessTarget, authorize
from arco.access.identity import Identity
from arco.access.principal import Principal
from arco.api.http.asgi import EXCHANGE, Exchange, Receive, Scope, Send, path_of
from arco.api.http.limits import HttpLimits
from arco.api.http.problem import PROBLEM_FORMAT, ErrorFormat, FormattedError, loggable
from arco.api.http.reply import Reply, send_reply
from arco.api.http.request import (
    Call,
    ClientDisconnected,
    read_body,
    read_query,
    wait_for_disconnect,
)
from arco.api.http.route import AnyRoute
from arco.api.http.router import Router
from arco.api.http.snapshots import ReplyCache, SnapshotReads, state_key
from arco.api.http.telemetry import Log, frames
from arco.core import scope as workspace
from arco.core.errors import ArcoError, Denied, Invalid, Unavailable, Unknown
from arco.core.runtime import Runtime

# Two of these would mean two requests in one, and a proxy may have read the other.
_ONCE = frozenset({b"authorization", b"content-type", b"idempotency-key", b"if-match", b"host"})
# Several lines of these are one list.
_LISTS = frozenset({b"if-none-match", b"accept-encoding"})


@dataclass(frozen=True, kw_only=True)
class DispatcherContext:
    """What a dispatcher needs besides its routes.

    `is_internal`: the callers are processes of Arco. They get a 403 when the store denies this process
    access; other callers get a 503, because they cannot do anything about it.
    """

    runtime: Runtime
    scope: workspace.Scope
    identity: Identity
    limits: HttpLimits
    log: Log
    is_internal: bool = False


class Dispatcher:
    """Answers every request of one protocol."""

    def __init__(
        self,
        router: Router,
        context: DispatcherContext,
        *,
        reads: SnapshotReads | None = None,
        error_format: ErrorFormat = PROBLEM_FORMAT,
    ) -> None:
        self.error_format = error_format
        self._router = router
        self._context = context
        self._tasks = context.runtime.tasks
        self._reads = reads
        self._cache = ReplyCache(context.limits.cached_bytes)
        self._anyone = Principal("client:anyone", context.scope)
        self._subjects = {
            route.operation: AccessTarget(scope=context.scope, kind=route.target)
            for route in router.routes
        }

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        exchange: Exchange = scope[EXCHANGE]
        try:
            reply = await self._reply(scope, receive, exchange)
        except ClientDisconnected:
            return
        except Exception as error:
            reply = self._error_reply(error, exchange)
        await send_reply(reply, scope, send)

    async def _reply(self, scope: Scope, receive: Receive, exchange: Exchange) -> Reply:
        path: bytes = path_of(scope)
        route, path_params = self._router.find(scope["method"], path)
        exchange.operation, exchange.route = str(route.operation), route.path
        headers = _headers(scope, exchange)
        if route.operation in PUBLIC_OPERATIONS:
            principal = self._anyone
        else:
            header = headers.get(b"authorization")
            authorization = None if header is None else header.decode("latin-1")
            principal = await self._context.identity.identify(authorization)
        exchange.principal = principal.name
        authorize(principal, route.operation, self._subjects[route.operation])
        if route.cacheable and (reply := self._shared_reply(route, path, scope, exchange)):
            return reply
        call: Call[Any, Any] = Call(
            operation=route.operation,
            principal=principal,
            path_params=path_params,
            path=path,
            query_string=scope["query_string"],
            headers=headers,
            arrived_ms=exchange.arrived_ms,
            address=(scope.get("client") or ("",))[0],
        )
        if route.long_polls:
            exchange.long_polls = True
        try:
            if route.mutates:
                return await self._change(route, call, receive, exchange)
            return await self._read_in_time(route, call, receive, exchange)
        except Denied as denied:
            # The caller was authorized above: the store or the compactor denied this process.
            if self._context.is_internal:
                formatted = self.error_format.format(denied, exchange.operation)
                self._log(denied, formatted, exchange)
                raise
            reason = "something that this server needs has refused its identity"
            raise Unavailable(reason) from denied

    async def _change(
        self, route: AnyRoute, call: Call[Any, Any], receive: Receive, exchange: Exchange
    ) -> Reply:
        """Carry out a change. It is never cancelled half-way: only the wait for it has a deadline."""
        await self._decode(route, call, receive)
        work = self._tasks.spawn(self._run_handler(route, call, receive, exchange))
        try:
            return await self._tasks.deadline(self._context.limits.request_ms, work.wait())
        except TimeoutError:
            raise Unknown("the request has taken too long") from None

    async def _read_in_time(
        self, route: AnyRoute, call: Call[Any, Any], receive: Receive, exchange: Exchange
    ) -> Reply:
        """Read, and give up at the deadline: nothing was changed, so the client can retry."""
        work = (
            self._read_cached(route, call)
            if route.cacheable
            else self._read(route, call, receive, exchange)
        )
        try:
            return await self._tasks.deadline(self._context.limits.request_ms, work)
        except TimeoutError:
            raise Unavailable("the request has taken too long") from None

    def _shared_reply(
        self, route: AnyRoute, path: bytes, scope: Scope, exchange: Exchange
    ) -> Reply | None:
        """The cached reply, if what it depends on was read since the request arrived."""
        if self._reads is None:
            return None
        arrived_ms, with_unresolved = exchange.arrived_ms, route.reads_tables
        state = self._reads.state_since(arrived_ms, with_unresolved=with_unresolved)
        return None if state is None else self._cache.get((state, path, scope["query_string"]))

    async def _read_cached(self, route: AnyRoute, call: Call[Any, Any]) -> Reply:
        """The reply of a cacheable route: the same manifest and the same URL have the same reply."""
        if self._reads is None:
            raise Invalid(f"{route.path} is pure, but there is nothing to read from")
        if route.reads_tables:
            call.head, unresolved = await self._reads.head_with_unresolved()
            call.unresolved_ids, state = unresolved.open, state_key(call.head, unresolved)
        else:
            call.head = await self._reads.head()
            state = call.head.sha256
        key = (state, call.path, call.query_string)
        reply = self._cache.get(key)
        if reply is None:
            call.query = read_query(call.query_string, route.query)
            reply = await route.handler(call)
            if not call.resolved_names and self._reads.is_newest(call.head):
                self._cache.put(key, reply)
        return reply

    async def _read(
        self, route: AnyRoute, call: Call[Any, Any], receive: Receive, exchange: Exchange
    ) -> Reply:
        await self._decode(route, call, receive)
        return await self._run_handler(route, call, receive, exchange)

    async def _run_handler(
        self, route: AnyRoute, call: Call[Any, Any], receive: Receive, exchange: Exchange
    ) -> Reply:
        """The handler's reply. A long poll is not counted as in flight, and sees its client disconnect."""
        if route.long_polls:
            exchange.leave_in_flight()
        if route.runs_sql:
            return await self._while_connected(route.handler(call), receive)
        if not route.long_polls:
            return await route.handler(call)
        call.disconnected = self._tasks.event()
        listener = self._tasks.spawn(wait_for_disconnect(receive, call.disconnected))
        try:
            return await route.handler(call)
        finally:
            listener.cancel()

    async def _while_connected(self, work: Coroutine[Any, Any, Reply], receive: Receive) -> Reply:
        """The reply to a slow read, which is cancelled when its client disconnects."""
        disconnected, worker = self._tasks.event(), self._tasks.spawn(work)

        async def cancel_on_disconnect() -> None:
            await wait_for_disconnect(receive, disconnected)
            worker.cancel()

        listener = self._tasks.spawn(cancel_on_disconnect())
        try:
            return await worker.wait()
        except BaseException as problem:
            if disconnected.is_set():
                raise ClientDisconnected from problem
            raise
        finally:
            listener.cancel()
            worker.cancel()

    async def _decode(self, route: AnyRoute, call: Call[Any, Any], receive: Receive) -> None:
        """Read the query and the body as the types of the route."""
        call.query = read_query(call.query_string, route.query)
        if route.body is None:
            return
        limits = self._context.limits
        raw = await read_body(
            call.headers,
            receive,
            self._tasks,
            max_bytes=route.body_bytes or limits.body_bytes,
            max_ms=limits.body_ms,
            accepts_gzip=route.accepts_gzip,
            other_types=route.body.other_types,
        )
        call.body = route.body.decode(raw or b"{}" if route.body.optional else raw)

    def _error_reply(self, error: Exception, exchange: Exchange) -> Reply:
        formatted = self.error_format.format(error, exchange.operation)
        exchange.code = formatted.code
        if formatted.reply.status >= 500:
            self._log(error, formatted, exchange)
        return formatted.reply

    def _log(self, error: Exception, formatted: FormattedError, exchange: Exchange) -> None:
        """Log what an operator has to know; the principal is in the log line of the request."""
        log, request_id = self._context.log, exchange.request_id
        if not formatted.expected:
            name = type(error).__name__
            log.error("unexpected", request_id=request_id, error=name, places=frames(error))
            return
        errors = (error, error.__cause__)
        details = [loggable(each) for each in errors if isinstance(each, ArcoError)]
        denied = next((each for each in reversed(errors) if isinstance(each, Denied)), None)
        log_line = (
            log.warning if denied is None else log.error
        )  # only the operator can grant access
        log_line(
            "failed",
            request_id=request_id,
            code=formatted.code,
            detail=": ".join(filter(None, details)),
            places=frames(denied or error),
        )


class ProtocolDispatcher:
    """Passes a request to the dispatcher of its protocol, by the first segment of its path.

    A request of no other protocol is one of the native API.
    """

    def __init__(self, native: Dispatcher, others: dict[str, Dispatcher]) -> None:
        self._native = native
        self._others = {root.encode(): other for root, other in others.items()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._dispatcher(scope).handle(scope, receive, send)

    def error_format(self, scope: Scope) -> ErrorFormat:
        """The error format of the protocol that a request is for."""
        return self._dispatcher(scope).error_format

    def _dispatcher(self, scope: Scope) -> Dispatcher:
        root = path_of(scope).split(b"/", 2)[1:2]
        return self._others.get(root[0], self._native) if root else self._native


def _headers(scope: Scope, exchange: Exchange) -> dict[bytes, bytes]:
    """The headers of a request. A repeated one is `Invalid`, or joined if it is a list."""
    headers, pairs = exchange.headers, scope["headers"]
    if len(headers) != len(pairs):
        names = [name for name, _ in pairs]
        repeated = [name.decode() for name in _ONCE if names.count(name) > 1]
        if repeated:
            raise Invalid(f"the header {repeated[0]} is there twice")
        for name in _LISTS & headers.keys():
            headers[name] = b", ".join(value for each, value in pairs if each == name)
    return headers
