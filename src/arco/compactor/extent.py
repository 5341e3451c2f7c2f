"""The extent of a chain: its floor and its head, looked for with suspicion.

Readers trust the chain and gallop; here every number is accounted for. A number that is missing below one
that is there, or below one that the hint names, was taken away. Where the role may list, the listing tells
(law 6 leaves it to anti-entropy); where it may not, a few numbers above the head are looked at.
"""

from dataclasses import dataclass

from arco.compactor.report import ProblemKind, Wrong
from arco.core.errors import Corrupt
from arco.storage.chain import Chain, last_present
from arco.storage.entry import Entry
from arco.storage.hint import FloorBody, Hint, read_hint
from arco.storage.roles import Verb, may

_LOOK_AHEAD = 16


@dataclass(frozen=True)
class Extent:
    """Which numbers of a chain are kept; -1 is the head of an empty one."""

    floor: int
    head: int


async def read_link(chain: Chain, number: int, kind: ProblemKind) -> Entry | None:
    """One number of a chain, or None where there is none; `Wrong` if it cannot be read."""
    try:
        return await chain.find(number)
    except Corrupt as problem:
        led_by = number if kind is ProblemKind.MANIFEST else None
        raise Wrong(kind, chain.key(number), str(problem), number=led_by) from problem


async def measure(chain: Chain, kind: ProblemKind = ProblemKind.MANIFEST) -> Extent:
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
        raise _missing(chain, head + 1, which, kind)
    if is_promised and head < floor:
        raise _missing(chain, floor, "the floor says that it is there", kind)
    return Extent(floor, head)


async def _newest_floor(chain: Chain, hint: Hint | None) -> tuple[int, bool]:
    """The newest floor, and whether there is one; the floors are a chain that is never collected."""
    floors = Chain(chain.store, f"{chain.path}/floor", hinted=False, floored=False)
    last: Entry | None = None
    floor = 0
    while (entry := await read_link(floors, _next(last), ProblemKind.FLOOR)) is not None:
        path = floors.key(entry.number)
        if entry.record.parent_sha256 != (None if last is None else last.sha256()):
            path = path if last is None else floors.key(last.number)
            raise Wrong(ProblemKind.FLOOR, path, "does not have the bytes that the next one names")
        said = _floor_in(entry, path)
        if said < floor:
            raise Wrong(ProblemKind.FLOOR, path, f"is {said}, below {floor}, the one before it")
        floor, last = said, entry
    if hint is not None and hint.floor_index >= _next(last):
        raise Wrong(ProblemKind.FLOOR, floors.key(_next(last)), "is missing: the hint names it")
    return floor, last is not None


def _floor_in(entry: Entry, path: str) -> int:
    try:
        return entry.body(FloorBody).floor
    except Corrupt as problem:
        raise Wrong(ProblemKind.FLOOR, path, "does not hold a floor") from problem


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
            if await read_link(chain, expected, kind) is None:
                raise _missing(chain, expected, f"number {number} is there", kind)
            expected += 1
        expected += 1
    return expected - 1


async def _probed_head(chain: Chain, floor: int, hint: Hint | None, kind: ProblemKind) -> int:
    async def probe(number: int) -> Entry | None:
        return await read_link(chain, number, kind)

    start = floor if hint is None else max(floor, hint.number)
    low = await probe(start)
    head = start - 1
    if low is not None:
        head, _ = await last_present(probe, start, low)
    ahead = range(head + 1, head + 1 + _LOOK_AHEAD)
    found = await chain.store.runtime.tasks.gather(*(probe(number) for number in ahead))
    for entry in found:
        if entry is not None:
            raise _missing(chain, head + 1, f"number {entry.number} is there", kind)
    return head


def _missing(chain: Chain, number: int, why: str, kind: ProblemKind) -> Wrong:
    led_by = number if kind is ProblemKind.MANIFEST else None
    return Wrong(kind, chain.key(number), f"is missing: {why}", number=led_by)


def _number(chain: Chain, key: str) -> int | None:
    stem, dot, kind = key.removeprefix(f"{chain.path}/").partition(".")
    is_number = dot and kind == "json" and stem.isascii() and stem.isdigit()
    return int(stem) if is_number and key == chain.key(int(stem)) else None
