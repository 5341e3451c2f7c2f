"""What an attempt has published before its word for it could come: looked for when it ends badly.

An attempt may have brought its rows in and died right then, or never have heard that it did. Whoever makes
the partition again in another run does not know the task, and would append the same rows once more. So the
chains are asked before such an end is told. What is not found there is fenced: it cannot come later (P35).
"""

from arco.core.errors import ArcoError, Conflict, Unavailable, Unknown
from arco.flow.run.desk import Desk
from arco.flow.run.ending import fingerprint_of, found_done
from arco.flow.run.lease import Lease
from arco.flow.run.live import LiveRun
from arco.flow.run.materials import Materials
from arco.flow.run.ports import Facts
from arco.flow.run.prepare import Chosen, Found, Preparation, appends
from arco.flow.run.task_state import Ending
from arco.flow.run.wire import TaskStatus


class Untold:
    """Looks for what was published and not told."""

    def __init__(
        self, desk: Desk, facts: Facts, preparation: Preparation, materials: Materials
    ) -> None:
        self._desk = desk
        self._facts = facts
        self._preparation = preparation
        self._materials = materials

    async def is_done(self, run: LiveRun, lease: Lease) -> bool:
        """Whether a task that appends is done after all; its end is durable then, and acted on.

        To be asked in the turn of the task. `Unavailable` and the like: ask again.
        """
        if not appends(run.maker(lease.key)):
            return False
        found = await self._find(Chosen(run, lease.key))
        if found is None:
            return False
        desk, maker, now_ms = self._desk, run.maker(lease.key), self._desk.clock.now_ms()
        code, inputs = maker.code_fingerprint, found.inputs
        of = run.of_attempt(lease.key, found.attempt)
        await self._facts.append([*found_done(of, found.published, now_ms, code, inputs)])
        for written, number in found.published:
            self._materials.published(
                written.table,
                written.table_id,
                written.partition,
                number.publication.attempt_id,
                fingerprint_of(code, inputs),
            )
        desk.drop(lease.attempt_id)
        desk.figures.ended[TaskStatus.SUCCESS] = desk.figures.ended.get(TaskStatus.SUCCESS, 0) + 1
        ending = Ending(TaskStatus.SUCCESS, completed_at_ms=now_ms)
        desk.ready(run, run.state.ended(lease.key, ending))
        run.ring()
        return True

    async def _find(self, chosen: Chosen) -> Found | None:
        try:
            return await self._preparation.find(chosen)
        except (Conflict, Unavailable, Unknown):
            raise
        except ArcoError:  # its table is gone, or what would tell
            return None
