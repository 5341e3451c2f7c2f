"""The extent of a chain: its floor and its head, looked for with suspicion.

Readers trust the chain and gallop; here every number is accounted for. A number that is missing below one
that is there, or below one that the hint names, was taken away. Where the role may list, the listing tells
(law 6 leaves it to anti-entropy); where it may not, a few numbers above the head are looked at.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from itertools import pairwise

from arco.compactor.verification_report import Discrepancy, ProblemKind, VerificationCounts
from arco.core.errors import Corrupt
from arco.fold.tier1 import DOMAIN
from arco.ledger.claim import KEYS
from arco.ledger.key import key_chain
from arco.ledger.slot import slots_of
from arco.storage.chain import Chain
from arco.storage.floor import FloorBody
from arco.storage.gallop import last_present
from arco.storage.hint import Hint, read_hint
from arco.storage.link import Entry
from arco.storage.roles import Verb, may
from arco.storage.store import Store

_LOOK_AHEAD = 16


@dataclass(frozen=True)
class ChainRange:
    """Which numbers of a chain are kept; -1 is the head of an empty one."""

    floor: int
    head: int


async def read_entry(chain: Chain, number: int, kind: ProblemKind) -> Entry | None:
    """One number of a chain, or None where there is none; `Wrong` if it cannot be read."""
    try:
        return await chain.find(number)
    except Corrupt as problem:
        led_by = number if kind is ProblemKind.MANIFEST else None
        raise Discrepancy(kind, chain.key(number), str(problem), number=led_by) from problem


async def measure_chain(chain: Chain, kind: ProblemKind = ProblemKind.MANIFEST) -> ChainRange:
    """The floor and the head, or `Wrong` if a number in between is missing."""
    # The hint first: what it names was there before anything that is read after it.
    hint = await read_hint(chain.store, f"{chain.path}/head.json")
    floor, is_promised = await _newest_floor(chain, hint)
    if may(chain.store.role, Verb.LIST, f"{chain.path}/_"):
        head = await _listed_head(chain, floor, kind)
    else:
        head = await _probed_head(chain, floor, hint, kind)
    if hint is not None and hint.number > head:
        which = f"{chain.path}/head.json names number {hint.number}; one of the two is wrong"
        raise _missing_entry(chain, head + 1, which, kind)
    if is_promised and head < floor:
        raise _missing_entry(chain, floor, "the floor says that it is there", kind)
    return ChainRange(floor, head)


async def _newest_floor(chain: Chain, hint: Hint | None) -> tuple[int, bool]:
    """The newest floor, and whether there is one; the floors are a chain that is never collected."""
    floors = Chain(chain.store, f"{chain.path}/floor", hinted=False, floored=False)
    last: Entry | None = None
    floor = 0
    while (entry := await read_entry(floors, _next(last), ProblemKind.FLOOR)) is not None:
        path = floors.key(entry.number)
        if entry.link.parent_sha256 != (None if last is None else last.sha256()):
            path = path if last is None else floors.key(last.number)
            raise Discrepancy(
                ProblemKind.FLOOR, path, "does not have the bytes that the next one names"
            )
        said = _floor_in(entry, path)
        if said < floor:
            raise Discrepancy(
                ProblemKind.FLOOR, path, f"is {said}, below {floor}, the one before it"
            )
        floor, last = said, entry
    if hint is not None and hint.floor_index >= _next(last):
        raise Discrepancy(
            ProblemKind.FLOOR, floors.key(_next(last)), "is missing: the hint names it"
        )
    return floor, last is not None


def _floor_in(entry: Entry, path: str) -> int:
    try:
        return entry.body(FloorBody).floor
    except Corrupt as problem:
        raise Discrepancy(ProblemKind.FLOOR, path, "does not hold a floor") from problem


def _next(last: Entry | None) -> int:
    return 0 if last is None else last.number + 1


async def _listed_head(chain: Chain, floor: int, kind: ProblemKind) -> int:
    expected = floor
    async for meta in chain.store.list(f"{chain.path}/"):
        number = _number(chain, meta.key)
        if number is None or number < floor:
            continue
        while number > expected:
            # Looked for by its key: it may have been made while the listing was under way.
            if await read_entry(chain, expected, kind) is None:
                raise _missing_entry(chain, expected, f"number {number} is there", kind)
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
    found = await chain.store.runtime.tasks.gather(*(probe(number) for number in ahead))
    for entry in found:
        if entry is not None:
            raise _missing_entry(chain, head + 1, f"number {entry.number} is there", kind)
    return head


def _missing_entry(chain: Chain, number: int, why: str, kind: ProblemKind) -> Discrepancy:
    led_by = number if kind is ProblemKind.MANIFEST else None
    return Discrepancy(kind, chain.key(number), f"is missing: {why}", number=led_by)


def _number(chain: Chain, key: str) -> int | None:
    stem, dot, kind = key.removeprefix(f"{chain.path}/").partition(".")
    is_number = dot and kind == "json" and stem.isascii() and stem.isdigit()
    return int(stem) if is_number and key == chain.key(int(stem)) else None


_AT_ONCE = 16

# Folders of chains of other rooms, one below each name.
_FAMILIES = (
    "_catalog/iceberg_pointers/",
    "_catalog/iceberg_doubts/",
    "_catalog/parquet_pointers/",
)


async def check_side_chains(store: Store, domain: str, checked: VerificationCounts) -> None:
    """`Wrong` at the first number of them that is not what it was."""
    if not may(store.role, Verb.GET, f"locks/{domain}/_"):
        return
    for chain in (Chain(store, f"locks/{domain}"), slots_of(store, domain)):
        await _check_chain(chain, checked)
    if domain != DOMAIN:
        return  # the others are of the whole workspace, and are looked at with the catalog
    if may(store.role, Verb.LIST, f"{KEYS}_"):
        async for path, numbers in _keys(store):
            await _check_key(key_chain(store, path), numbers, checked)
    for folder in _FAMILIES:
        if may(store.role, Verb.LIST, f"{folder}_"):
            async for path in _below(store, folder):
                await _check_chain(Chain(store, path), checked)


async def _check_chain(chain: Chain, checked: VerificationCounts) -> None:
    before = await _floor(chain)
    try:
        extent = await measure_chain(chain, ProblemKind.LINK)
        for first in range(extent.floor, extent.head + 1, _AT_ONCE):
            # One more at the end, which vouches for the one before it.
            last = min(extent.head, first + _AT_ONCE)
            await _check_run(chain, list(range(first, last + 1)), checked)
    except Discrepancy:
        if await _floor(chain) == before:
            raise


async def _floor(chain: Chain) -> int | None:
    """The floor, or None if it cannot be read: then the measuring names what is wrong with it."""
    try:
        return await chain.floor()
    except Corrupt:
        return None


async def _check_run(chain: Chain, numbers: list[int], checked: VerificationCounts) -> None:
    found = await chain.store.runtime.tasks.gather(
        *(read_entry(chain, number, ProblemKind.LINK) for number in numbers)
    )
    checked.links += len(found)
    _check_parents(chain, [entry for entry in found if entry is not None])


async def _check_key(chain: Chain, numbers: list[int], checked: VerificationCounts) -> None:
    if numbers != list(range(len(numbers))):
        gap = next(at for at, number in enumerate(numbers) if at != number)
        raise Discrepancy(ProblemKind.LINK, chain.key(gap), "is missing: a later number is there")
    await _check_run(chain, numbers, checked)


def _check_parents(chain: Chain, entries: list[Entry]) -> None:
    for parent, child in pairwise(entries):
        follows = child.number == parent.number + 1
        if follows and child.link.parent_sha256 != parent.sha256():
            fault = "does not have the bytes that the next number names"
            raise Discrepancy(ProblemKind.LINK, chain.key(parent.number), fault)


async def _below(store: Store, folder: str) -> AsyncIterator[str]:
    """The path of every chain right below a folder."""
    known = ""
    async for meta in store.list(folder):
        path = folder + meta.key.removeprefix(folder).partition("/")[0]
        if path != known:
            yield path
        known = path


async def _keys(store: Store) -> AsyncIterator[tuple[str, list[int]]]:
    """Every key's path and its numbers: those of one key stand together in a listing."""
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
