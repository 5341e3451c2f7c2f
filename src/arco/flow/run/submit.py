"""Taking runs on: a run key is claimed, the plan is stored, the ledger is told, and then the run begins.

Each step can be repeated, so that whoever was not answered asks again with the same key and gets the same
run, whatever became of the first time.
"""

from typing import get_args

from arco.core.errors import Invalid
from arco.core.ids import new_ulid
from arco.events.execution import TriggerType
from arco.flow.run.desk import Desk
from arco.flow.run.events import LONGEST_LABEL, submitted
from arco.flow.run.live import LiveRun, check_plan
from arco.flow.run.materials import Materials
from arco.flow.run.plan_store import Base, PlanStore, RunClaim, StoredPlan
from arco.flow.run.ports import Facts, Fences
from arco.flow.run.recovery import Recovery
from arco.flow.run.run_state import RunState
from arco.flow.run.wire import RunWish


class Submission:
    """Takes runs on."""

    def __init__(
        self,
        desk: Desk,
        plans: PlanStore,
        *,
        recovery: Recovery,
        facts: Facts,
        fences: Fences,
        materials: Materials,
    ) -> None:
        self._desk = desk
        self._plans = plans
        self._recovery = recovery
        self._facts = facts
        self._fences = fences
        self._materials = materials

    async def take(self, wish: RunWish) -> tuple[LiveRun, bool]:
        """The run of a wish, and whether it begins now."""
        _check(wish)
        async with self._desk.turns.of(f"key/{wish.run_key}"):
            return await self._take(wish)

    async def _take(self, wish: RunWish) -> tuple[LiveRun, bool]:
        runtime = self._desk.runtime
        mine = RunClaim(
            create_id=new_ulid(runtime),
            run_key=wish.run_key,
            run_id=new_ulid(runtime),
            plan_id=wish.plan.plan_id,
            requested_at_ms=runtime.clock.now_ms(),
        )
        claim = await self._plans.claim(mine)
        if claim.plan_id != mine.plan_id:
            raise Invalid(f"run key {wish.run_key!r} stands for another plan: choose another key")
        if claim.run_id != mine.run_id:
            known = self._desk.find(claim.run_id) or await self._recovery.archived(claim.run_id)
            if known is not None and (known.state.is_over or known.run_id in self._desk.runs):
                return known, False
            # It was never begun here, so whatever was told of it is told again.
        return await self._begun(claim, wish), True

    async def _begun(self, claim: RunClaim, wish: RunWish) -> LiveRun:
        known = await self._materials.load(wish.plan)
        stored = await self._plans.keep(
            StoredPlan(
                create_id=new_ulid(self._desk.runtime),
                run_id=claim.run_id,
                requested_at_ms=claim.requested_at_ms,
                bases=await self._bases(wish),
                wish=wish,
                keeper=self._desk.keeper if wish.worker in self._desk.inside else "",
            )
        )
        tables = {table: base.table_id for table, base in stored.bases.items()}
        now_ms = self._desk.clock.now_ms()
        await self._facts.append([*submitted(claim.run_id, stored.wish, tables, now_ms)])
        run = LiveRun(stored, RunState(stored.wish.plan), table_ids=tables)
        run.known = known if self._materials.is_whole(known) else None  # then it is read anew
        self._desk.runs[run.run_id] = run
        self._desk.heard(run.worker)
        self._desk.ready(run, run.state.begin())
        return run

    async def _bases(self, wish: RunWish) -> dict[str, Base]:
        """Above which numbers the run publishes, and those before it of which it is the retry."""
        makers = wish.plan.makers
        names = sorted({target.table for maker in makers for target in maker.targets})
        places = await self._desk.tasks.gather(*(self._fences.place(name) for name in names))
        bases = {
            name: Base(table_id=place.table_id, number=place.number)
            for name, place in zip(names, places, strict=True)
            if place is not None
        }
        return bases if not wish.after else await self._first_bases(wish.after[0], bases)

    async def _first_bases(self, first: str, now: dict[str, Base]) -> dict[str, Base]:
        """The same tables as the first of several runs has found them; -1 where nobody can tell."""
        run = self._desk.find(first) or await self._recovery.archived(first)
        then = {} if run is None else run.stored.bases
        return {
            name: then[name]
            if name in then and then[name].table_id == base.table_id
            else Base(table_id=base.table_id, number=-1)
            for name, base in now.items()
        }


def _check(wish: RunWish) -> None:
    if not 0 < len(wish.run_key) <= LONGEST_LABEL or "\0" in wish.run_key:
        raise Invalid(f"a run key has 1 to {LONGEST_LABEL} characters")
    for name in (wish.worker, wish.triggered_by or ""):
        if len(name) > LONGEST_LABEL:
            raise Invalid(f"a name has at most {LONGEST_LABEL} characters: {name[:40]!r}")
    if wish.trigger_type not in get_args(TriggerType):
        raise Invalid(f"{wish.trigger_type!r} is none of {', '.join(get_args(TriggerType))}")
    check_plan(wish.plan)
