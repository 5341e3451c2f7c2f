"""Errands: requests of the catalog's own API that the Iceberg room carries out.

An errand is one of the room's works, and what is left to do for the catalog once that has taken effect: to
show the columns, to describe what was renamed. The work decides, and is done once; what is left can be done
again. So under a key whoever finds the work done finishes the errand (P11).
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import msgspec

from arco.catalog.change import Renderer
from arco.catalog.decision import refuse_stale
from arco.catalog.done import Done
from arco.catalog.model import ObjectKind
from arco.core.errors import (
    ArcoError,
    Corrupt,
    NotFound,
    PreconditionFailed,
    Unknown,
)
from arco.iceberg.context import Desk
from arco.iceberg.errors import Refused, Unreadable, core_error, unreadable
from arco.iceberg.idempotency import Told, refused, told_of
from arco.ledger.claim import Answer, Claim
from arco.ledger.idempotency import Hold, Terms, Work

_STALE = "stale"  # in the ids of a claim: why the request came too late
_WAY = "way"  # in the ids of a claim: the kind of what the room was asked to change


@dataclass(frozen=True)
class Errand:
    """A work of the room, and how it ends."""

    work: Work
    finish: Callable[[Told], Awaitable[Done]]


class MatchedWork:
    """A work that is refused if the object is not the version that an If-Match names.

    The version is compared once, with the newest snapshot before the claim, and the claim keeps what came
    of it: whoever takes over must not meet the request's own effect and take it for a stranger's. So it
    does not see what others change between that look and the commit, nor commits of engines that leave the
    table's row as it is, such as those of data: the ETag is the version of that row.
    """

    def __init__(self, desk: Desk, work: Work, expected: int | str | None) -> None:
        self._desk = desk
        self._work = work
        self._expected = expected

    async def terms(self) -> Terms:
        terms = await self._work.terms()
        stale = await self._stale(terms.ids.get("table", ""))
        return terms if stale is None else Terms({**terms.ids, _STALE: stale}, terms.base)

    def renew(self, claim: Claim) -> dict[str, str]:
        return self._work.renew(claim)

    async def find(self, claim: Claim) -> Answer | None:
        return await self._work.find(claim)

    async def perform(self, claim: Claim, hold: Hold) -> Answer:
        if _STALE in claim.ids:
            return refused(Refused(412, "PreconditionFailedException", claim.ids[_STALE]))
        try:
            return await self._work.perform(claim, hold)
        except Unreadable as problem:
            raise unreadable(problem) from problem
        except Refused as problem:
            raise core_error(problem) from problem

    async def _stale(self, table_id: str) -> str | None:
        if self._expected is None or not table_id:
            return None
        reader = self._desk.reader
        try:
            found = await (reader.remembered() or await reader.head()).find(table_id)
            refuse_stale(self._expected, found)
        except NotFound:
            return None
        except PreconditionFailed as stale:
            return str(stale)
        return None


class KeyedErrand:
    """A request under a key, which is the catalog's to carry out or the room's.

    Its claim says which: a retry goes the same way, though the name may be gone by then, or be another's.
    """

    def __init__(
        self,
        plain: Work,
        kind_of: Callable[[], Awaitable[ObjectKind | None]],
        errand_for: Callable[[ObjectKind], Errand],
        renderer: Renderer,
    ) -> None:
        self._plain = plain
        self._kind_of = kind_of
        self._errand_for = errand_for
        self._renderer = renderer
        self._errand: Errand | None = None

    async def terms(self) -> Terms:
        kind = await self._kind_of()
        if kind is None:
            return await self._plain.terms()
        terms = await self._of(kind).work.terms()
        if not terms.ids.get("table", "-") and await self._kind_of() is None:
            return await self._plain.terms()  # what we remembered of the name was old
        return Terms({**terms.ids, _WAY: kind}, terms.base)

    def renew(self, claim: Claim) -> dict[str, str]:
        return claim.ids

    async def find(self, claim: Claim) -> Answer | None:
        way = claim.ids.get(_WAY)
        if way is None:
            return await self._plain.find(claim)
        errand = self._of(ObjectKind(way))
        found = await errand.work.find(claim)
        return None if found is None else await self._told(errand, found)

    async def perform(self, claim: Claim, hold: Hold) -> Answer:
        way = claim.ids.get(_WAY)
        if way is None:
            return await self._plain.perform(claim, hold)
        errand = self._of(ObjectKind(way))
        return await self._told(errand, await errand.work.perform(claim, hold))

    def _of(self, kind: ObjectKind) -> Errand:
        if self._errand is None:
            self._errand = self._errand_for(kind)
        return self._errand

    async def _told(self, errand: Errand, answer: Answer) -> Answer:
        try:
            told = told_of(answer)
        except Refused as verdict:
            return self._renderer.refused(core_error(verdict))
        done = self._renderer.done(await finished(errand, told))
        return msgspec.structs.replace(done, has_landed=answer.has_landed)


async def finished(errand: Errand, told: Told) -> Done:
    """The end of an errand. What fails by now is no refusal: the request has taken effect (law 9)."""
    try:
        return await errand.finish(told)
    except (Unknown, Corrupt):
        raise
    except (ArcoError, Refused) as problem:
        raise Unknown("it has taken effect, but not all that follows from it") from problem
