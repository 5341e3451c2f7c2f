"""The dispatcher: one request through identity, authorization, its types, its handler, to its reply.

Each protocol that is served has one, with its own table of routes and its own words for errors. Every error
ends here as one of those; nothing that a handler raises reaches the server.
"""

from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

from starlette.types import Receive, Scope, Send

from arco.access.authorization import PUBLIC_OPERATIONS, AccessTarget, authorize
from arco.access.identity import Identity
from arco.access.principal import Principal
from arco.api.body import Gone, read_body, until_gone
from arco.api.exchange import EXCHANGE, Exchange
from arco.api.limits import Limits
from arco.api.log import Log, places
from arco.api.problem import loggable
from arco.api.query_params import read_query
from arco.api.reads import Reads, ReplyCache
from arco.api.reply import send_reply
from arco.api.route import AnyRoute, Call, Reply
from arco.api.router import Router, path_of
from arco.api.voice import NATIVE, Told, Voice
from arco.core import scope as workspace
from arco.core.errors import ArcoError, Denied, Invalid, Unavailable, Unknown
from arco.core.runtime import Runtime

# Two of these would mean two requests in one, and somebody between us may have read the other.
_ONCE = frozenset({b"authorization", b"content-type", b"idempotency-key", b"if-match", b"host"})
# Several lines of these are one list.
_LISTS = frozenset({b"if-none-match", b"accept-encoding"})


@dataclass(frozen=True, kw_only=True)
class Door:
    """What a dispatcher needs besides its routes.

    Callers that are processes of our own are told when the store refuses this one; others are not, since
    they could do nothing about it.
    """

    runtime: Runtime
    scope: workspace.Scope
    identity: Identity
    limits: Limits
    log: Log
    is_internal: bool = False


class Dispatcher:
    """Answers every request for one protocol."""

    def __init__(
        self, router: Router, door: Door, *, reads: Reads | None = None, voice: Voice = NATIVE
    ) -> None:
        self.voice = voice
        self._router = router
        self._door = door
        self._reads = reads
        self._kept = ReplyCache(door.limits.cached_bytes)
        self._anyone = Principal("client:anyone", door.scope)
        self._subjects = {
            route.operation: AccessTarget(scope=door.scope, kind=route.target)
            for route in router.routes
        }

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        exchange: Exchange = scope[EXCHANGE]
        try:
            reply = await self._reply(scope, receive, exchange)
        except Gone:
            return
        except Exception as error:
            reply = self._refusal(error, exchange)
        await send_reply(reply, scope, send)

    async def _reply(self, scope: Scope, receive: Receive, exchange: Exchange) -> Reply:
        path: bytes = path_of(scope)
        route, names = self._router.find(scope["method"], path)
        exchange.operation, exchange.route = route.operation.value, route.path
        headers = _headers(scope)
        principal = await self._identify(route, headers)
        exchange.principal = principal.name
        authorize(principal, route.operation, self._subjects[route.operation])
        call: Call[Any, Any] = Call(
            operation=route.operation,
            principal=principal,
            names=names,
            path=path,
            query_string=scope["query_string"],
            headers=headers,
            arrived_ms=exchange.arrived_ms,
            address=(scope.get("client") or ("",))[0],
        )
        if route.waits:
            exchange.waits = True
        try:
            if route.mutates:
                return await self._change(route, call, receive, exchange)
            return await self._in_time(route, call, receive, exchange)
        except Denied as denied:
            # Who calls was let in above: this is about our own identity, at the store or the compactor.
            if self._door.is_internal:
                self._log(denied, self.voice.tell(denied, exchange.operation), exchange)
                raise
            reason = "something that this server needs has refused its identity"
            raise Unavailable(reason) from denied

    async def _identify(self, route: AnyRoute, headers: dict[bytes, bytes]) -> Principal:
        if route.operation in PUBLIC_OPERATIONS:
            return self._anyone
        given = headers.get(b"authorization")
        told = None if given is None else given.decode("latin-1")
        return await self._door.identity.identify(told)

    async def _change(
        self, route: AnyRoute, call: Call[Any, Any], receive: Receive, exchange: Exchange
    ) -> Reply:
        """Carry out a change. It is never broken off half-way: only the wait for it has an end."""
        await self._fill(route, call, receive)
        tasks = self._door.runtime.tasks
        work = tasks.spawn(self._handled(route, call, receive, exchange))
        try:
            return await tasks.deadline(self._door.limits.request_ms, work.wait())
        except TimeoutError:
            raise Unknown("the request has taken too long") from None

    async def _in_time(
        self, route: AnyRoute, call: Call[Any, Any], receive: Receive, exchange: Exchange
    ) -> Reply:
        """Read, and give up when it takes too long: nothing was changed, so it can be tried again."""
        work = (
            self._read_kept(route, call)
            if route.pure
            else self._read(route, call, receive, exchange)
        )
        try:
            return await self._door.runtime.tasks.deadline(self._door.limits.request_ms, work)
        except TimeoutError:
            raise Unavailable("the request has taken too long") from None

    async def _read_kept(self, route: AnyRoute, call: Call[Any, Any]) -> Reply:
        """The reply of a pure route: the same manifest and the same URL have the same reply."""
        if self._reads is None:
            raise Invalid(f"{route.path} is pure, but there is nothing to read from")
        if route.tables:
            call.head, doubts = await self._reads.head_with_doubts()
            call.doubtful, state = doubts.open, f"{call.head.sha256}-{doubts.number}"
        else:
            call.head = await self._reads.head()
            state = call.head.sha256
        key = (state, call.path, call.query_string)
        reply = self._kept.get(key)
        if reply is None:
            call.query = read_query(call.query_string, route.query)
            reply = await route.handler(call)
            if not call.asked:
                self._kept.keep(key, reply)
        return reply

    async def _read(
        self, route: AnyRoute, call: Call[Any, Any], receive: Receive, exchange: Exchange
    ) -> Reply:
        await self._fill(route, call, receive)
        return await self._handled(route, call, receive, exchange)

    async def _handled(
        self, route: AnyRoute, call: Call[Any, Any], receive: Receive, exchange: Exchange
    ) -> Reply:
        """The handler's reply. One that waits takes nobody's place, and hears when its caller leaves."""
        if route.queries:
            return await self._while_connected(route.handler(call), receive)
        if not route.waits:
            return await route.handler(call)
        exchange.step_aside()
        tasks = self._door.runtime.tasks
        call.left = tasks.event()
        listening = tasks.spawn(until_gone(receive, call.left))
        try:
            return await route.handler(call)
        finally:
            listening.cancel()

    async def _while_connected(self, work: Coroutine[Any, Any, Reply], receive: Receive) -> Reply:
        """The reply to a read that may take long; it is cancelled when its caller leaves, with `Gone`."""
        tasks = self._door.runtime.tasks
        left, working = tasks.event(), tasks.spawn(work)

        async def cancel_when_left() -> None:
            await until_gone(receive, left)
            working.cancel()

        listening = tasks.spawn(cancel_when_left())
        try:
            return await working.wait()
        except BaseException as problem:
            if left.is_set():
                raise Gone from problem
            raise
        finally:
            listening.cancel()
            working.cancel()

    async def _fill(self, route: AnyRoute, call: Call[Any, Any], receive: Receive) -> None:
        """Read the query and the body by their types."""
        call.query = read_query(call.query_string, route.query)
        if route.sent is None:
            return
        limits = self._door.limits
        raw = await read_body(
            call.headers,
            receive,
            self._door.runtime.tasks,
            most_bytes=route.body_bytes or limits.body_bytes,
            most_ms=limits.body_ms,
            inflates=route.inflates,
            also=route.sent.also,
        )
        call.body = route.sent.read(raw or b"{}" if route.sent.optional else raw)

    def _refusal(self, error: Exception, exchange: Exchange) -> Reply:
        told = self.voice.tell(error, exchange.operation)
        exchange.code = told.code
        if told.reply.status >= 500:
            self._log(error, told, exchange)
        return told.reply

    def _log(self, error: Exception, told: Told, exchange: Exchange) -> None:
        """Log what whoever runs the server has to know; who asked is in the request's own line."""
        log, request_id = self._door.log, exchange.request_id
        if not told.expected:
            kind = type(error).__name__
            log.error("unexpected", request_id=request_id, error=kind, places=places(error))
            return
        said = [loggable(each) for each in (error, error.__cause__) if isinstance(each, ArcoError)]
        denied = next((each for each in (error.__cause__, error) if isinstance(each, Denied)), None)
        say = log.warning if denied is None else log.error  # nobody but who runs it can help
        say(
            "failed",
            request_id=request_id,
            code=told.code,
            detail=": ".join(filter(None, said)),
            places=places(denied or error),
        )


def _headers(scope: Scope) -> dict[bytes, bytes]:
    pairs: list[tuple[bytes, bytes]] = scope["headers"]
    headers = dict(pairs)
    if len(headers) != len(pairs):
        names = [name for name, _ in pairs]
        twice = [name.decode() for name in _ONCE if names.count(name) > 1]
        if twice:
            raise Invalid(f"the header {twice[0]} is there twice")
        for name in _LISTS & headers.keys():
            headers[name] = b", ".join(value for each, value in pairs if each == name)
    return headers
