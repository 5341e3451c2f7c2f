"""Ways through the whole of compaction: what is published, what fresh reads say, what a rebuild gives."""

from collections import Counter
from datetime import timedelta
from random import Random

from tests.differential.history import History
from tests.differential.layout import cut, mixed
from tests.differential.life import Life, Pace
from tests.differential.rows import Tables, differences, folded, placeless, read
from tests.differential.site import Site
from tests.differential.words import RECEIVED_BY

_HOUR_MS = 3_600_000
_PACE = Pace()


async def compacted(
    rng: Random,
    site: Site,
    history: History,
    wanted: Tables,
    tally: Counter[str],
    pace: Pace = _PACE,
) -> list[str]:
    """What is wrong about a life in which the bounds stay as they are, so that delay changes nothing."""
    retention = {name: RECEIVED_BY - bound for name, bound in history.bounds.items()}
    life = Life(rng, site, history.domain, retention, pace)
    await life.begin()
    wrong: list[str] = []
    for lines in cut(rng, mixed(rng, history.lines)):
        await life.append(lines)
        if rng.random() < pace.pause:
            wrong += await _publish(life)
    wrong += await _publish(life)
    found = await life.rows()
    own = folded(history.domain, read(history.domain, life.segments, history.bounds).rows)
    wrong += differences("published", own, found)
    wrong += differences("published, another layout", placeless(wanted), placeless(found))
    if pace.rebuilds:
        wrong += await _rebuilt(life)
    tally += life.tally
    return wrong


async def aged(
    rng: Random, site: Site, history: History, tally: Counter[str], pace: Pace = _PACE
) -> list[str]:
    """What is wrong about a life in which time passes and rows leave.

    What is late then depends on when a line comes. But a fresh read still is what is published next, unless
    the bounds rise with it, and a rebuild still gives what was published.
    """
    kept = timedelta(hours=rng.randint(2, 8))
    life = Life(rng, site, history.domain, dict.fromkeys(history.bounds, kept), pace)
    await life.begin()
    wrong: list[str] = []
    for lines in cut(rng, mixed(rng, history.lines)):
        await life.append(lines)
        if rng.random() < pace.pause:
            wrong += await _publish(life)
            site.clock.pass_ms(rng.random() * _HOUR_MS)
    wrong += await _publish(life)
    if pace.rebuilds:
        wrong += await _rebuilt(life)
    tally += life.tally
    return wrong


async def _publish(life: Life) -> list[str]:
    fresh, bounds = await life.fresh(), await life.bounds()
    await life.compact()
    if await life.bounds() != bounds:
        return []
    return differences("fresh read", await life.rows(hidden=False), fresh)


async def _rebuilt(life: Life) -> list[str]:
    before, visible = await life.rows(), await life.rows(hidden=False)
    await life.rebuild()
    return [
        *differences("rebuild", before, await life.rows()),
        *differences("fresh read after a rebuild", visible, await life.fresh()),
    ]
