"""The chain of an idempotency key: claims, outcomes, and the search for evidence of a request (P10, P11).

Number 0 is the first claim; the next number is an outcome or a takeover claim, and put-if-absent decides
which. A claim fixes the ids that its work will use and the number of the target chain from which to search
for its request, so that a process that takes over does the same work, or finds it done.
"""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from itertools import pairwise

import msgspec

from arco.core import json
from arco.core.errors import Conflict, Corrupt, Invalid, NotFound, Unknown
from arco.core.hashing import sha256_hex
from arco.core.scope import Scope
from arco.storage.backend import Meta
from arco.storage.chain import Chain, Head
from arco.storage.entry import Entry
from arco.storage.store import Store

KEYS = "_catalog/idempotency/"
MAX_REQUEST_MS = 10 * 60_000

_READ_AHEAD = 3
_MAX_REREADS = 3

# Verdicts on a request that follow from the state of a chain. A denial, an overload or an internal error
# says nothing about the request and is never recorded (P12). They are HTTP statuses because stored outcomes
# contain the status of the answer.
_VERDICTS = frozenset({400, 404, 406, 409, 410, 412, 413, 422})


class Claim(msgspec.Struct, frozen=True, kw_only=True, tag="claim", tag_field="kind"):
    """A process works on the request, or did."""

    request_sha256: str
    request_id: str
    ids: dict[str, str]
    base: int
    life_ms: (
        int  # of the key, from its number 0 on; a takeover repeats it, garbage collection obeys it
    )


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a request: success, or a verdict that stays true."""

    status: int
    body: msgspec.Raw = msgspec.Raw(b"null")
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    has_landed: bool = True  # whether the target chain shows a success; else only the outcome does

    def __post_init__(self) -> None:
        if not self.succeeded and self.status not in _VERDICTS:
            raise Invalid(f"status {self.status} is not a verdict on a request")
        json.decode(bytes(self.body), msgspec.Raw)  # invalid JSON would make the entry unreadable

    @property
    def succeeded(self) -> bool:
        return 200 <= self.status < 300


class ClaimOutcome(msgspec.Struct, frozen=True, kw_only=True, tag="outcome", tag_field="kind"):
    """The final answer to the request."""

    request_sha256: str
    answer: Answer


KeyState = Claim | ClaimOutcome


def key_path(scope: Scope, *, principal: str, api: str, operation: str, key: str) -> str:
    """The path of the chain of a key: a hash of everything that distinguishes keys of different callers."""
    if not 0 < len(key) <= 255 or not key.isprintable():
        raise Invalid("an idempotency key has 1 to 255 printable characters")
    parts = ["1", scope.tenant, scope.workspace, principal, api, operation, key]
    digest = sha256_hex(json.canonical([*parts]))
    return f"{KEYS}{digest[:2]}/{digest}"


def key_chain(store: Store, path: str) -> Chain:
    """The chain of one key: short, so it has neither a hint nor a floor."""
    return Chain(store, path, width=4, hinted=False, floored=False)


async def read_key(chain: Chain) -> list[Entry]:
    """All entries of a key, in order; none if it was not used.

    They are few, so all are read at once. That shows what the head alone would not: number 0, which says
    how long the key lives, and whether each entry names its parent. A create that came too late for a
    deleted key would stand above the next claim as if it belonged to it (P14).
    """
    for _ in range(1 + _MAX_REREADS):
        entries = await _read_entries(chain)
        if _follow_each_other(entries):
            return entries
        # Entries were created or collected between the probes: read again.
    raise Corrupt(f"the entries of {chain.path} do not follow each other")


async def _read_entries(chain: Chain) -> list[Entry]:
    entries: list[Entry] = []
    probed = 0
    while len(entries) == probed:
        ahead = range(probed, probed + _READ_AHEAD)
        read = await chain.store.runtime.tasks.gather(*(chain.find(n) for n in ahead))
        entries += [entry for entry in read if entry is not None]
        probed += _READ_AHEAD
    return entries


def _follow_each_other(entries: list[Entry]) -> bool:
    if [entry.number for entry in entries] != list(range(len(entries))):
        return False
    return all(child.record.parent_sha256 == parent.sha256() for parent, child in pairwise(entries))


@dataclass(frozen=True)
class RequestEvidence:
    """The head of the target chain, and the entry up to it that has the request, if there is one.

    One search gives both. A process that validates against this head and appends after it has checked
    every entry below the one it creates; a head that is read separately would leave a gap.
    """

    head: Head
    landed: Entry | None


async def find_evidence(
    chain: Chain, claim: Claim, request_ids: Callable[[Entry], list[str]]
) -> RequestEvidence:
    """Search the target chain for the claim's request, from the claim's base to the head."""
    head = await chain.head()
    try:
        since = await chain.history(max(0, claim.base), head.number)
    except NotFound as collected:
        raise Unknown(
            "the entries that would show whether this request was applied were collected"
        ) from collected
    for entry in since:
        if claim.request_id in request_ids(entry):
            return RequestEvidence(head, entry)
    return RequestEvidence(head, None)


@dataclass(frozen=True)
class UnfinishedClaim:
    """A key whose last entry is a claim that no process can be working on any more."""

    chain: Chain
    head: Head
    claim: Claim

    async def finish(self, answer: Answer) -> bool:
        """Record the outcome; False if another process came first."""
        outcome = ClaimOutcome(request_sha256=self.claim.request_sha256, answer=answer)
        try:
            await self.chain.append(self.head, outcome)
        except Conflict:
            return False
        return True


async def unfinished_claims(store: Store, *, most: int) -> AsyncIterator[UnfinishedClaim]:
    """Keys whose last entry is a claim older than the longest request and younger than the key's life.

    It looks at up to `most` keys from a random start, so that over time it covers all of them. For repair
    only, since it lists (law 6).
    """
    clock = store.runtime.clock
    looked_at, folder = 0, ""
    async for meta in _list_from_random_key(store):
        if meta.key.rpartition("/")[0] == folder:
            continue
        folder = meta.key.rpartition("/")[0]
        looked_at += 1
        if looked_at > most:
            return
        chain, started = key_chain(store, folder), clock.elapsed_ms()
        numbers = await read_key(chain)
        if not numbers:
            continue
        state: KeyState = numbers[-1].body(KeyState)  # type: ignore[arg-type]  # msgspec decodes unions
        now_ms = clock.now_ms()
        is_held = now_ms - numbers[-1].created_ms <= MAX_REQUEST_MS
        # A life counts from number 0: after it the chain may be collected at any time (P14).
        is_over = isinstance(state, Claim) and now_ms - numbers[0].created_ms >= state.life_ms
        if isinstance(state, ClaimOutcome) or is_held or is_over:
            continue
        yield UnfinishedClaim(chain, Head(numbers[-1], started), state)


async def _list_from_random_key(store: Store) -> AsyncIterator[Meta]:
    """All entries of all keys, from a random key on."""
    start = f"{KEYS}{store.runtime.rng.randbytes(1).hex()}"
    async for meta in store.list(KEYS, after=start):
        yield meta
    async for meta in store.list(KEYS):
        if meta.key > start:
            return
        yield meta
