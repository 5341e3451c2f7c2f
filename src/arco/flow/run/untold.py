"""What an attempt has published before its word for it could come: looked for when it ends badly.

An attempt may have brought its rows in and died right then, or never have heard that it did. Whoever makes
the partition again in another run does not know the task, and would append the same rows once more. So the
chains are asked before such an end is told, output by output: what is found there is told, and what is not
is fenced, so that it cannot come later (P35).
"""

from dataclasses import dataclass

from arco.core.errors import Invalid, NotFound
from arco.flow.run.desk import Desk
from arco.flow.run.ending import Written
from arco.flow.run.lease import Lease
from arco.flow.run.live import LiveRun
from arco.flow.run.made import Made, found_done
from arco.flow.run.materials import Materials
from arco.flow.run.ports import Facts
from arco.flow.run.prepare import Chosen, Preparation, appends
from arco.flow.run.task_state import Ending
from arco.flow.run.wire import TaskStatus


@dataclass(frozen=True)
class Looked:
    """What was found: whether the task is done after all, and if not which of its outputs stand."""

    is_done: bool = False
    stands: tuple[Written, ...] = ()


class Untold:
    """Looks for what was published and not told."""

    def __init__(
        self, desk: Desk, facts: Facts, preparation: Preparation, materials: Materials
    ) -> None:
        self._desk = desk
        self._facts = facts
        self._preparation = preparation
        self._materials = materials

    async def look(self, run: LiveRun, lease: Lease) -> Looked:
        """Look for what a task that appends has published; it is durable then, and acted on if it is all.

        To be asked in the turn of the task. Any error but a bug of ours: nobody knows, ask again.
        """
        if not appends(run.maker(lease.key)):
            return Looked(stands=lease.stands)
        found = await self._find(Chosen(run, lease.key))
        stands = {each.table: each for each in (*lease.stands, *(each.written for each in found))}
        now_ms = self._desk.clock.now_ms()
        is_done = bool(found) and len(found) == len(run.maker(lease.key).targets)
        if is_done:
            await self._facts.append([*found_done(found, now_ms)])
        elif found:
            await self._facts.append([fact for each in found for fact in each.told(now_ms)])
        self._materials.found(found)
        if is_done:
            self._end(run, lease, now_ms)
        return Looked(is_done, tuple(stands.values()))

    def _end(self, run: LiveRun, lease: Lease, now_ms: int) -> None:
        self._desk.drop(lease.attempt_id)
        self._desk.end(run, lease.key, Ending(TaskStatus.SUCCESS, completed_at_ms=now_ms))
        run.ring()

    async def _find(self, chosen: Chosen) -> tuple[Made, ...]:
        try:
            return await self._preparation.find(chosen)
        except (NotFound, Invalid):  # its table is gone, or is another one now
            return ()
