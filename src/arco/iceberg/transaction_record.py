"""The stored record of a transaction over several tables: an intent, and an outcome that decides it (P33).

The outcome is created with put-if-absent: the holder commits, or a writer that waited too long aborts.
It is never garbage collected, so a pointer that names a transaction can always be resolved.
"""

import msgspec

from arco.core import json
from arco.core.errors import Conflict, Corrupt, Invalid
from arco.core.ids import new_ulid
from arco.core.lru_cache import LruCache
from arco.storage.store import Store

TRANSACTIONS = "_catalog/transactions"
FORMAT = 1

_REMEMBERED = 10_000


class Participant(msgspec.Struct, frozen=True, kw_only=True):
    """A table of the transaction, and the number of its pointer."""

    table_id: str
    number: int
    metadata_location: str


class TransactionIntent(msgspec.Struct, frozen=True, kw_only=True):
    """The participants of a transaction, for operators; it decides nothing."""

    format: int = FORMAT
    create_id: str
    request_id: str
    actor: str
    participants: tuple[Participant, ...]


class TransactionOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a transaction was committed or aborted."""

    format: int = FORMAT
    create_id: str
    committed: bool


class TransactionRecords:
    """The records of transactions."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._decided = LruCache[str, bool](_REMEMBERED)

    async def begin(
        self, transaction: str, request_id: str, actor: str, participants: tuple[Participant, ...]
    ) -> None:
        """Write the intent, before any pointer names the transaction."""
        intent = TransactionIntent(
            create_id=new_ulid(self._store.runtime),
            request_id=request_id,
            actor=actor,
            participants=participants,
        )
        await self._store.create(f"{TRANSACTIONS}/{transaction}/intent.json", json.encode(intent))

    async def outcome(self, transaction: str) -> bool | None:
        """Whether it was committed; None while undecided, which is never cached."""
        decided = self._decided.get(transaction)
        if decided is not None:
            return decided
        raw = await self._store.find(self._key(transaction))
        return None if raw is None else self._remember(transaction, _read(raw, transaction))

    async def decide(self, transaction: str, *, committed: bool) -> bool:
        """Decide it, and return the decision, which another process may have made first."""
        decided = self._decided.get(transaction)
        if decided is not None:
            return decided
        outcome = TransactionOutcome(create_id=new_ulid(self._store.runtime), committed=committed)
        try:
            await self._store.create(self._key(transaction), json.encode(outcome))
        except Conflict:
            raw = await self._store.get(self._key(transaction))
            return self._remember(transaction, _read(raw, transaction))
        return self._remember(transaction, committed)

    def _key(self, transaction: str) -> str:
        return f"{TRANSACTIONS}/{transaction}/outcome.json"

    def _remember(self, transaction: str, committed: bool) -> bool:  # noqa: FBT001
        self._decided.put(transaction, committed)
        return committed


def _read(raw: bytes, transaction: str) -> bool:
    try:
        return json.decode(raw, TransactionOutcome).committed
    except Invalid as problem:
        raise Corrupt(f"the outcome of transaction {transaction} cannot be read") from problem
