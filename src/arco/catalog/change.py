"""The ways to change the catalog: plainly, or under an idempotency key (P10 to P14)."""

from collections.abc import Callable
from typing import Protocol

from arco.catalog.committer import Committer
from arco.catalog.ddl import CreateCatalog, Ddl
from arco.catalog.manifest import read_manifest
from arco.catalog.pending_request import ChangeResult, PendingRequest, read_change_result
from arco.core.errors import AlreadyExists, ArcoError
from arco.core.ids import new_object_id, new_ulid
from arco.ledger.claim import Answer, Claim
from arco.ledger.evidence import look
from arco.ledger.idempotency import Hold, Idempotency, Terms, Work
from arco.storage.link import Entry

DEFAULT_CATALOG = "default"
SYSTEM = "client:arco"
OBJECT = "object"  # what a claim calls the id that a new object gets


class Renderer(Protocol):
    """How a protocol writes its answers down."""

    def done(self, done: ChangeResult) -> Answer:
        """The request was carried out."""

    def refused(self, problem: ArcoError) -> Answer:
        """It was refused for good."""


async def change(committer: Committer, request: Ddl, actor: str) -> ChangeResult:
    """Carry a request out; a refusal is raised."""
    runtime = committer.reader.store.runtime
    return await committer.submit(
        PendingRequest(
            request=request,
            actor=actor,
            request_id=new_ulid(runtime),
            new_id=new_object_id(runtime),
            asked_ms=runtime.clock.elapsed_ms(),
            done=runtime.tasks.event(),
        )
    )


async def change_once(
    committer: Committer,
    idempotency: Idempotency,
    request: Ddl,
    actor: str,
    *,
    path: str,
    request_sha256: str,
    renderer: Renderer,
    arrived_ms: float,
) -> Answer:
    """Carry a request out at most once, and answer it the same whenever it comes again."""
    runtime = committer.reader.store.runtime

    def ids() -> dict[str, str]:
        return {OBJECT: new_object_id(runtime)}

    work = _KeyedChange(committer, lambda _: request, actor, renderer, ids)
    return await idempotency.once(path, request_sha256, work, arrived_ms=arrived_ms)


def change_work(
    committer: Committer,
    request_of: Callable[[Claim], Ddl],
    actor: str,
    renderer: Renderer,
    ids: dict[str, str],
) -> Work:
    """A change of the catalog as work under a claim.

    The request is made of the claim's ids, so that whoever takes over asks for the very same. Of `ids`,
    what is called `object` is the id that a new object would get.
    """
    return _KeyedChange(committer, request_of, actor, renderer, lambda: ids)


async def ensure_default(committer: Committer) -> None:
    """A workspace starts with the catalog `default`; of two that make it, one is first."""
    if (await committer.reader.head()).number >= 0:
        return
    try:
        await change(committer, CreateCatalog(name=DEFAULT_CATALOG), SYSTEM)
    except AlreadyExists:
        return


class _KeyedChange:
    """A request as work under a claim."""

    def __init__(
        self,
        committer: Committer,
        request_of: Callable[[Claim], Ddl],
        actor: str,
        renderer: Renderer,
        ids: Callable[[], dict[str, str]],
    ) -> None:
        self._committer = committer
        self._reader = committer.reader
        self._runtime = committer.reader.store.runtime
        self._request_of = request_of
        self._actor = actor
        self._renderer = renderer
        self._ids = ids
        self._looked_up_to = -1  # up to here the request has not landed

    async def terms(self) -> Terms:
        known = self._reader.chain.remembered()
        base = (await self._reader.head()).number if known is None else known.number
        return Terms(ids=self._ids(), base=base)

    def renew(self, claim: Claim) -> dict[str, str]:
        return claim.ids

    async def find(self, claim: Claim) -> Answer | None:
        seen = await look(self._reader.chain, claim, _requests)
        if seen.mine is None:
            self._looked_up_to = seen.head.number
            return None
        return self._renderer.done(
            await read_change_result(self._reader, claim.request_id, seen.mine.number)
        )

    async def perform(self, claim: Claim, hold: Hold) -> Answer:
        ask = PendingRequest(
            request=self._request_of(claim),
            actor=self._actor,
            request_id=claim.request_id,
            new_id=claim.ids[OBJECT],
            asked_ms=self._runtime.clock.elapsed_ms(),
            done=self._runtime.tasks.event(),
            base=max(claim.base, self._looked_up_to),
            hold=hold,
        )
        try:
            return self._renderer.done(await self._committer.submit(ask))
        except ArcoError as problem:
            if not ask.refused:
                raise
            return self._renderer.refused(problem)


def _requests(entry: Entry) -> list[str]:
    return list(read_manifest(entry).requests)
