"""The chains beside the manifests: leases, slots of streams, idempotency keys, and pointers of tables.

No published state rests on them, but who cannot read them cannot write, and pointers are what tables are
of Iceberg and of plain Parquet: so they are looked at, too. They may be collected while we look; what lies
below a floor that was raised meanwhile is excused.
"""

from collections.abc import AsyncIterator
from itertools import pairwise

from arco.compactor.extent import measure, read_link
from arco.compactor.report import Checked, ProblemKind, Wrong
from arco.core.errors import Corrupt
from arco.fold.tier1 import DOMAIN
from arco.ledger.claim import KEYS, key_chain
from arco.ledger.stream import slot_chain
from arco.storage.chain import Chain
from arco.storage.entry import Entry
from arco.storage.roles import Verb, may
from arco.storage.store import Store

_AT_ONCE = 16

# Folders of chains of other rooms, one below each name.
_FAMILIES = (
    "_catalog/iceberg_pointers/",
    "_catalog/iceberg_doubts/",
    "_catalog/parquet_pointers/",
)


async def check_side_chains(store: Store, domain: str, checked: Checked) -> None:
    """`Wrong` at the first number of them that is not what it was."""
    if not may(store.role, Verb.GET, f"locks/{domain}/_"):
        return
    for chain in (Chain(store, f"locks/{domain}"), slot_chain(store, domain)):
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


async def _check_chain(chain: Chain, checked: Checked) -> None:
    before = await _floor(chain)
    try:
        extent = await measure(chain, ProblemKind.LINK)
        for first in range(extent.floor, extent.head + 1, _AT_ONCE):
            # One more at the end, which vouches for the one before it.
            last = min(extent.head, first + _AT_ONCE)
            await _check_run(chain, list(range(first, last + 1)), checked)
    except Wrong:
        if await _floor(chain) == before:
            raise


async def _floor(chain: Chain) -> int | None:
    """The floor, or None if it cannot be read: then the measuring names what is wrong with it."""
    try:
        return await chain.floor()
    except Corrupt:
        return None


async def _check_run(chain: Chain, numbers: list[int], checked: Checked) -> None:
    found = await chain.store.runtime.tasks.gather(
        *(read_link(chain, number, ProblemKind.LINK) for number in numbers)
    )
    checked.links += len(found)
    _check_parents(chain, [entry for entry in found if entry is not None])


async def _check_key(chain: Chain, numbers: list[int], checked: Checked) -> None:
    if numbers != list(range(len(numbers))):
        gap = next(at for at, number in enumerate(numbers) if at != number)
        raise Wrong(ProblemKind.LINK, chain.key(gap), "is missing: a later number is there")
    await _check_run(chain, numbers, checked)


def _check_parents(chain: Chain, entries: list[Entry]) -> None:
    for parent, child in pairwise(entries):
        follows = child.number == parent.number + 1
        if follows and child.record.parent_sha256 != parent.sha256():
            fault = "does not have the bytes that the next number names"
            raise Wrong(ProblemKind.LINK, chain.key(parent.number), fault)


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
