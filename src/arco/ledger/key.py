"""The chain of one idempotency key, read as a whole (P10, P14).

It is short: a claim, at times a takeover, an outcome; so all of it is read at once. That shows what a head
alone would not: number 0, which says how long the key lives, and whether each number names its parent. A
create that was late for a key's end stands above the next claim of that key as if it belonged there.
"""

from itertools import pairwise

from arco.core.errors import Corrupt
from arco.storage.chain import Chain
from arco.storage.link import Entry
from arco.storage.store import Store

_AHEAD = 3
_MOST_DOUBTS = 3


def key_chain(store: Store, path: str) -> Chain:
    """The chain of one key: short, so it needs neither a hint nor a floor."""
    return Chain(store, path, width=4, hinted=False, floored=False)


async def read_key(chain: Chain) -> list[Entry]:
    """All numbers of a key, in order; none if nobody has used it."""
    for _ in range(1 + _MOST_DOUBTS):
        found = await _numbers(chain)
        if _follow_each_other(found):
            return found
        # They were made, or collected, between our probes: look again.
    raise Corrupt(f"the numbers of {chain.path} do not follow each other")


async def _numbers(chain: Chain) -> list[Entry]:
    found: list[Entry] = []
    asked = 0
    while len(found) == asked:
        ahead = range(asked, asked + _AHEAD)
        read = await chain.store.runtime.tasks.gather(*(chain.find(n) for n in ahead))
        found += [entry for entry in read if entry is not None]
        asked += _AHEAD
    return found


def _follow_each_other(entries: list[Entry]) -> bool:
    if [entry.number for entry in entries] != list(range(len(entries))):
        return False
    return all(child.link.parent_sha256 == parent.sha256() for parent, child in pairwise(entries))
