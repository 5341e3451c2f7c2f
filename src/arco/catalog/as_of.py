"""As of when: a manifest's number, a commit's id, or a moment.

Times of manifests only ever rise along the chain (P9), so a moment is found by halving. A commit's id holds
the time at which an API process chose it, by its own clock; so the search begins near that time and widens
until the id is met, or it has gone far enough.
"""

from datetime import UTC, datetime

from ulid import ULID

from arco.catalog.manifest import read_manifest
from arco.core.errors import Invalid, NotFound
from arco.core.ids import Ulid, parse_ulid
from arco.storage.chain import Chain
from arco.storage.entry import Entry

_RING = 16
# Versions around the time in the id: no clock is farther off, and a look has its price.
_FARTHEST = 512


def parse_as_of(text: str) -> int | Ulid | datetime:
    """What `text` names, or `Invalid`."""
    if text.isascii() and text.isdigit() and len(text) <= 18:
        return int(text)
    try:
        return parse_ulid(text)
    except Invalid:
        pass
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise Invalid(
            "as_of is a version number, a commit id (ULID) or a time with its zone, such as "
            f"2026-01-31T12:00:00Z; not {text[:40]!r}"
        )
    try:
        return moment.astimezone(UTC)
    except OverflowError as problem:
        raise Invalid("as_of lies outside the years 1 to 9999") from problem


async def search_time(chain: Chain, moment: datetime) -> Entry:
    """The manifest that was the newest at a moment."""
    found = await _last_until(chain, moment)
    if found is None:
        raise NotFound("nothing that is kept is as old as that")
    return found


async def search_commit(chain: Chain, commit_ulid: Ulid) -> Entry:
    """The manifest that published a commit."""
    head = (await chain.head()).number
    floor = await chain.floor()
    near = await _last_until(chain, _chosen_at(commit_ulid))
    middle = floor if near is None else near.number
    low, high = middle, middle - 1
    while (low > floor or high < head) and high - low < _FARTHEST:
        below = range(max(floor, low - _RING), low)
        above = range(high + 1, min(head, high + _RING) + 1)
        for numbers in (above, below):
            if not numbers:
                continue
            for entry in await chain.history(numbers[0], numbers[-1]):
                if read_manifest(entry).commit_ulid == commit_ulid:
                    return entry
        low, high = max(floor, low - _RING), min(head, high + _RING)
    raise NotFound(f"no version near the time of commit {commit_ulid} was made by it")


def _chosen_at(commit_ulid: Ulid) -> datetime:
    """The time in a ULID; it can hold some that lie beyond all years, and are as late as can be."""
    try:
        return ULID.from_str(commit_ulid).datetime
    except (ValueError, OverflowError):
        return datetime.max.replace(tzinfo=UTC)


async def _last_until(chain: Chain, moment: datetime) -> Entry | None:
    low, high = await chain.floor(), (await chain.head()).number
    best: Entry | None = None
    while low <= high:
        middle = (low + high) // 2
        entry = await chain.read(middle)
        if entry.record.created_at <= moment:
            best, low = entry, middle + 1
        else:
            high = middle - 1
    return best
