"""Checks of chains: that no number between floor and head is missing, and that parent hashes match.

Readers trust a chain and search for its head by galloping; here every number is looked up. A number that is
missing below an existing one, or below the one in the hint, was deleted. If the role may list, the listing
is used; otherwise a few numbers above the head are looked up.

Besides the manifests there are chains of leases, slots, idempotency keys and table pointers. They may be
collected during a check: a discrepancy below a floor that was raised meanwhile is ignored.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from itertools import pairwise

from arco.compactor.verification_report import Discrepancy, ProblemKind, VerificationCounts
from arco.core.errors import Corrupt
from arco.fold.tier1 import DOMAIN
from arco.ledger.claim import KEYS, key_chain
from arco.ledger.stream import slot_chain
from arco.storage.chain import Chain, last_present
from arco.storage.entry import Entry
from arco.storage.hint import FloorBody, Hint, read_hint
from arco.storage.roles import Verb, may
from arco.storage.store import Store

_LOOK_AHEAD = 16


@dataclass(frozen=True)
class ChainRange:
    """The numbers of a chain that are kept; the head of an empty chain is -1."""

    floor: int
    head: int


async def read_entry(chain: Chain, number: int, kind: ProblemKind) -> Entry | None:
    """The entry at a number of a chain, or None; `Discrepancy` if it cannot be read."""
    try:
        return await chain.find(number)
    except Corrupt as problem:
        manifest = number if kind is ProblemKind.MANIFEST else None
        raise Discrepancy(kind, chain.key(number), str(problem), number=manifest) from problem


async def measure_chain(chain: Chain, kind: ProblemKind = ProblemKind.MANIFEST) -> ChainRange:
    """The floor and the head; `Discrepancy` if a number in between is missing."""
    # The hint first: the number in it must exist for all later reads.
    hint = await read_hint(chain.store, f"{chain.path}/head.json")
    floor, has_floor = await _newest_floor(chain, hint)
    if may(chain.store.role, Verb.LIST, f"{chain.path}/_"):
        head = await _listed_head(chain, floor, kind)
    else:
        head = await _probed_head(chain, floor, hint, kind)
    if hint is not None and hint.number > head:
        which = f"{chain.path}/head.json names number {hint.number}; one of the two is wrong"
        raise _missing_entry(chain, head + 1, which, kind)
    if has_floor and head < floor:
        raise _missing_entry(chain, floor, "the chain's floor starts at it", kind)
    return ChainRange(floor, head)


async def _newest_floor(chain: Chain, hint: Hint | None) -> tuple[int, bool]:
    """The newest floor, and whether there is one. Floors are a chain that is never collected."""
    floors = Chain(chain.store, f"{chain.path}/floor", hinted=False, floored=False)
    newest_entry: Entry | None = None
    floor = 0
    while (entry := await read_entry(floors, _next(newest_entry), ProblemKind.FLOOR)) is not None:
        path = floors.key(entry.number)
        if entry.record.parent_sha256 != (None if newest_entry is None else newest_entry.sha256()):
            path = path if newest_entry is None else floors.key(newest_entry.number)
            raise Discrepancy(
                ProblemKind.FLOOR, path, "does not have the bytes that the next one names"
            )
        new_floor = _floor_in(entry, path)
        if new_floor < floor:
            raise Discrepancy(
                ProblemKind.FLOOR, path, f"is {new_floor}, below {floor}, the one before it"
            )
        floor, newest_entry = new_floor, entry
    if hint is not None and hint.floor_index >= _next(newest_entry):
        raise Discrepancy(
            ProblemKind.FLOOR, floors.key(_next(newest_entry)), "is missing: the hint names it"
        )
    return floor, newest_entry is not None


def _floor_in(entry: Entry, path: str) -> int:
    try:
        return entry.body(FloorBody).floor
    except Corrupt as problem:
        raise Discrepancy(ProblemKind.FLOOR, path, "does not hold a floor") from problem


def _next(entry: Entry | None) -> int:
    return 0 if entry is None else entry.number + 1


async def _listed_head(chain: Chain, floor: int, kind: ProblemKind) -> int:
    expected = floor
    async for meta in chain.store.list(f"{chain.path}/"):
        number = _number(chain, meta.key)
        if number is None or number < floor:
            continue
        while number > expected:
            # Looked up by key: it may have been created during the listing.
            if await read_entry(chain, expected, kind) is None:
                raise _missing_entry(chain, expected, f"number {number} exists", kind)
            expected += 1
        expected += 1
    return expected - 1


async def _probed_head(chain: Chain, floor: int, hint: Hint | None, kind: ProblemKind) -> int:
    async def probe(number: int) -> Entry | None:
        return await read_entry(chain, number, kind)

    start = floor if hint is None else max(floor, hint.number)
    low = await probe(start)
    head = start - 1
    if low is not None:
        head, _ = await last_present(probe, start, low)
    ahead = range(head + 1, head + 1 + _LOOK_AHEAD)
    entries = await chain.store.runtime.tasks.gather(*(probe(number) for number in ahead))
    for entry in entries:
        if entry is not None:
            raise _missing_entry(chain, head + 1, f"number {entry.number} exists", kind)
    return head


def _missing_entry(chain: Chain, number: int, why: str, kind: ProblemKind) -> Discrepancy:
    manifest = number if kind is ProblemKind.MANIFEST else None
    return Discrepancy(kind, chain.key(number), f"is missing: {why}", number=manifest)


def _number(chain: Chain, key: str) -> int | None:
    stem, dot, kind = key.removeprefix(f"{chain.path}/").partition(".")
    is_number = dot and kind == "json" and stem.isascii() and stem.isdigit()
    return int(stem) if is_number and key == chain.key(int(stem)) else None


_PARALLEL_READS = 16

# Folders with one chain per name, of other packages.
_FAMILIES = (
    "_catalog/iceberg_pointers/",
    "_catalog/iceberg_doubts/",
    "_catalog/parquet_pointers/",
)


async def check_side_chains(store: Store, domain: str, checked: VerificationCounts) -> None:
    """Check all chains besides the manifests; raises the first `Discrepancy`."""
    if not may(store.role, Verb.GET, f"locks/{domain}/_"):
        return
    for chain in (Chain(store, f"locks/{domain}"), slot_chain(store, domain)):
        await _check_chain(chain, checked)
    if domain != DOMAIN:
        return  # the other chains belong to the workspace, and are checked with the catalog
    if may(store.role, Verb.LIST, f"{KEYS}_"):
        async for path, numbers in _keys(store):
            await _check_key(key_chain(store, path), numbers, checked)
    for folder in _FAMILIES:
        if may(store.role, Verb.LIST, f"{folder}_"):
            async for path in _chains_below(store, folder):
                await _check_chain(Chain(store, path), checked)


async def _check_chain(chain: Chain, checked: VerificationCounts) -> None:
    before = await _floor(chain)
    try:
        extent = await measure_chain(chain, ProblemKind.LINK)
        for first in range(extent.floor, extent.head + 1, _PARALLEL_READS):
            # One more at the end, which has the hash of the one before it.
            last_number = min(extent.head, first + _PARALLEL_READS)
            await _check_entries(chain, list(range(first, last_number + 1)), checked)
    except Discrepancy:
        if await _floor(chain) == before:
            raise


async def _floor(chain: Chain) -> int | None:
    """The floor, or None if it cannot be read: then `measure_chain` reports the problem."""
    try:
        return await chain.floor()
    except Corrupt:
        return None


async def _check_entries(chain: Chain, numbers: list[int], checked: VerificationCounts) -> None:
    entries = await chain.store.runtime.tasks.gather(
        *(read_entry(chain, number, ProblemKind.LINK) for number in numbers)
    )
    checked.links += len(entries)
    _check_parents(chain, [entry for entry in entries if entry is not None])


async def _check_key(chain: Chain, numbers: list[int], checked: VerificationCounts) -> None:
    if numbers != list(range(len(numbers))):
        gap = next(at for at, number in enumerate(numbers) if at != number)
        raise Discrepancy(ProblemKind.LINK, chain.key(gap), "is missing: a later number exists")
    await _check_entries(chain, numbers, checked)


def _check_parents(chain: Chain, entries: list[Entry]) -> None:
    for parent, child in pairwise(entries):
        follows = child.number == parent.number + 1
        if follows and child.record.parent_sha256 != parent.sha256():
            fault = "does not have the bytes that the next number names"
            raise Discrepancy(ProblemKind.LINK, chain.key(parent.number), fault)


async def _chains_below(store: Store, folder: str) -> AsyncIterator[str]:
    """The path of every chain directly below a folder."""
    last_path = ""
    async for meta in store.list(folder):
        path = folder + meta.key.removeprefix(folder).partition("/")[0]
        if path != last_path:
            yield path
        last_path = path


async def _keys(store: Store) -> AsyncIterator[tuple[str, list[int]]]:
    """The path and the numbers of every idempotency key; a listing has those of a key together."""
    path, numbers = "", list[int]()
    async for meta in store.list(KEYS):
        folder, _, name = meta.key.rpartition("/")
        if folder != path and numbers:
            yield path, numbers
            numbers = []
        path = folder
        stem = name.removesuffix(".json")
        if stem.isascii() and stem.isdigit():
            numbers.append(int(stem))
    if numbers:
        yield path, numbers
