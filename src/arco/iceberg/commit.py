"""A commit to one table or view: check, apply the updates, store the metadata, create the next pointer.

A lost race is no conflict: the loser reads the new head, checks the requirements against it and applies
the updates again. A refusal depends on nothing but the head of the table's chain, so it can be stored
as the outcome of an idempotency key (P12). Once the pointer exists the answer is never a failure.

Sequential round trips in a warm process: name and head, metadata, pointer: 3. With a key, the claim and
a second read of the head come in between: 5. A commit that publishes a task attempt first reads the
pointers added since the attempt was dispatched, before each create (P35): 3 if there are none;
otherwise one more for every sixteen unread pointers and one for the floor.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import msgspec

from arco.catalog.change import ClaimId
from arco.catalog.model import ObjectKind
from arco.catalog.pending_request import Caller
from arco.core.errors import AttemptFenced, Conflict, Invalid, NotFound, Unavailable
from arco.core.json import Json
from arco.iceberg.context import IcebergContext
from arco.iceberg.engine.metadata import Metadata
from arco.iceberg.engine.requirement import check_requirements, was_applied
from arco.iceberg.engine.update import apply_updates
from arco.iceberg.engine.view_update import apply_view_updates, check_view_requirements
from arco.iceberg.idempotency import (
    FixedIdsWork,
    OperationResult,
    error_answer,
    success_answer,
    table_answer,
)
from arco.iceberg.loaded_metadata import LoadedMetadata
from arco.iceberg.name_resolution import FullName, ResolvedObject, find_object, not_found_error
from arco.iceberg.pointer import PointerOperation, RequestSearch, find_request, pointer_of
from arco.iceberg.pointer_head import PointerHead
from arco.iceberg.prepared_commit import (
    PreparedCommit,
    prepare_commit,
    reserve_locations,
    write_metadata,
)
from arco.iceberg.publication import published_attempt
from arco.iceberg.wire import CommitTableRequest, CommitViewRequest
from arco.ledger.claim import Answer, Claim
from arco.ledger.idempotency import ClaimHold, ClaimTerms
from arco.storage.chain import Chain, Head
from arco.storage.entry import Entry

JsonObjects = Sequence[dict[str, Json]]

COMMIT_DEADLINE_MS = 20_000  # then the answer is that nothing has happened; servers give up later
_MAX_SPREAD = 8


@dataclass(frozen=True)
class MetadataEngine:
    """How metadata of one kind is checked and changed."""

    kind: ObjectKind
    check: Callable[[Metadata | None, JsonObjects], None]
    # base, updates, time, location of the base
    apply: Callable[[Metadata | None, JsonObjects, int, str | None], Metadata]


def _apply_to_table(
    base: Metadata | None, updates: JsonObjects, now_ms: int, previous: str | None
) -> Metadata:
    return apply_updates(base, updates, now_ms=now_ms, previous_location=previous)


def _apply_to_view(
    base: Metadata | None, updates: JsonObjects, now_ms: int, previous: str | None
) -> Metadata:
    del previous  # view metadata has no log of metadata files
    return apply_view_updates(base, updates, now_ms=now_ms)


TABLE_ENGINE = MetadataEngine(ObjectKind.TABLE, check_requirements, _apply_to_table)
VIEW_ENGINE = MetadataEngine(ObjectKind.VIEW, check_view_requirements, _apply_to_view)


class CommitWork(FixedIdsWork):
    """One commit as work that takes effect once."""

    def __init__(
        self,
        context: IcebergContext,
        name: FullName,
        request: CommitTableRequest | CommitViewRequest,
        caller: Caller,
        engine: MetadataEngine,
    ) -> None:
        self._context = context
        self._name = name
        self._request = request
        self._caller = caller
        self._engine = engine
        self._resolved: ResolvedObject | None = None

    async def terms(self) -> ClaimTerms:
        self._resolved = await find_object(self._context, self._name, self._engine.kind, ahead=True)
        if self._resolved is None:
            # Fixed by the claim, so that a process that takes over cannot find another table.
            return ClaimTerms(ids={ClaimId.TABLE: ""}, base=-1)
        return ClaimTerms(
            ids={ClaimId.TABLE: self._resolved.id}, base=self._resolved.table_head.number
        )

    async def find(self, claim: Claim) -> Answer | None:
        return await find_landed_commit(self._context, claim)

    async def perform(self, claim: Claim, hold: ClaimHold) -> Answer:
        table_id = claim.ids[ClaimId.TABLE]
        if not table_id:
            return error_answer(not_found_error(self._engine.kind, self._name))
        async with self._context.table_locks.hold(table_id):
            return await self._perform_locked(table_id, claim, hold)

    async def _perform_locked(self, table_id: str, claim: Claim, hold: ClaimHold) -> Answer:
        context, chain = self._context, self._context.pointers.chain(table_id)
        check_deadline(self._context, self._caller)
        search, losses = await self._first_search(chain, claim), 0
        while search.landed is None:
            began_ms = context.runtime.clock.elapsed_ms()
            table_head = await context.heads.settle(await context.heads.resolve(search.head))
            if table_head.location is None:
                return error_answer(not_found_error(self._engine.kind, self._name))
            base = await context.load(table_head.location)
            try:
                prepared = self._prepare(base, table_head, claim)
                if prepared is not None:
                    prepared = await self._with_publication(chain, table_head, base, prepared)
            except (Invalid, Conflict, NotFound, AttemptFenced) as refusal:
                return error_answer(refusal)
            if prepared is None:
                result = OperationResult(table_id=table_id, metadata_location=table_head.location)
                return success_answer(result, has_landed=False)
            try:
                await reserve_locations(context, table_id, prepared, base)
            except NotFound as dropped:
                raise not_found_error(self._engine.kind, self._name) from dropped
            await write_metadata(context, table_id, prepared, hold)
            try:
                head = await chain.append(table_head.chain_head, prepared.pointer)
            except Conflict:
                losses += 1
                await self._back_off(losses, began_ms)
                search = await find_request(chain, table_head.number, claim.request_id)
                continue
            if head.entry is not None:
                context.published.learn(chain, head.entry)
            self._schedule_steps(table_id, head, prepared, base)
            return table_answer(table_id, prepared.location)
        return _landed(table_id, search.landed)

    async def _first_search(self, chain: Chain, claim: Claim) -> RequestSearch:
        """The head to begin with; without a key, the one that was read when the name was resolved."""
        if self._caller.key is not None or self._resolved is None:
            return await find_request(chain, claim.base, claim.request_id)
        resolved_head, chain_head = self._resolved.table_head.chain_head, chain.remembered()
        return RequestSearch(
            chain_head
            if chain_head is not None and chain_head.number > resolved_head.number
            else resolved_head
        )

    def _prepare(
        self, base: LoadedMetadata, table_head: PointerHead, claim: Claim
    ) -> PreparedCommit | None:
        """The prepared commit of the request on this base; None if it changes nothing."""
        context, request = self._context, self._request
        try:
            self._engine.check(base.metadata, request.requirements)
        except Conflict:
            if was_applied(base.metadata, request.updates):
                return None  # by this request, whose answer was lost
            raise
        context.locations.check_updates(
            request.updates, str(base.metadata["location"]), may_move=True
        )
        now_ms = context.runtime.clock.now_ms()
        metadata = self._engine.apply(base.metadata, request.updates, now_ms, table_head.location)
        if metadata is base.metadata:
            return None
        return prepare_commit(
            context,
            metadata,
            number=table_head.number + 1,
            caller=self._caller,
            request_id=claim.request_id,
            operation=PointerOperation.COMMIT,
            previous=table_head.location,
            updates=request.updates,
            base=base.metadata,
        )

    async def _with_publication(
        self, chain: Chain, table_head: PointerHead, base: LoadedMetadata, prepared: PreparedCommit
    ) -> PreparedCommit | None:
        """The commit with the task attempt that it publishes; None if that has published already."""
        if prepared.pointer.operation != PointerOperation.COMMIT:
            return prepared  # registering other metadata publishes nothing
        task = published_attempt(base.metadata, prepared.metadata)
        if task is None:
            return prepared
        if (
            await self._context.published.own_publication(chain, task, table_head.chain_head)
            is not None
        ):
            return None
        pointer = msgspec.structs.replace(prepared.pointer, publication=task.publication())
        return replace(prepared, pointer=pointer)

    def _schedule_steps(
        self, table_id: str, head: Head, prepared: PreparedCommit, base: LoadedMetadata
    ) -> None:
        if head.entry is not None:
            self._context.after_commit.schedule(
                table_id,
                head.entry,
                shape=prepared.shape,
                obsolete=prepared.obsolete_files(base.metadata),
            )

    async def _back_off(self, losses: int, began_ms: float) -> None:
        """After a lost race: wait for a random multiple of the store's latency, or give up."""
        # Not an `ExponentialBackoff`: its pauses are fixed, and these follow how long the last try took, so
        # that they suit a fast disk and a slow object store alike.
        check_deadline(self._context, self._caller)
        clock = self._context.runtime.clock
        spread = min(losses, _MAX_SPREAD) * self._context.runtime.rng.random()
        await clock.sleep((clock.elapsed_ms() - began_ms) * spread)


def check_deadline(
    context: IcebergContext, caller: Caller, *, retry_after_ms: int | None = 1_000
) -> None:
    """`Unavailable` if a request has lost races for so long that its client gives up."""
    if context.runtime.clock.elapsed_ms() > caller.arrived_ms + COMMIT_DEADLINE_MS:
        reason = "too many concurrent changes of the same tables; retry"
        raise Unavailable(reason, retry_after_ms=retry_after_ms)


async def find_landed_commit(context: IcebergContext, claim: Claim) -> Answer | None:
    """The answer of a claim whose request is on the pointer chain of its table."""
    table_id = claim.ids[ClaimId.TABLE]
    if not table_id:
        return None
    search = await find_request(context.pointers.chain(table_id), claim.base, claim.request_id)
    return None if search.landed is None else _landed(table_id, search.landed)


def _landed(table_id: str, landed: Entry) -> Answer:
    result = OperationResult(
        table_id=table_id, metadata_location=pointer_of(landed).metadata_location
    )
    return success_answer(result)
