"""Settling: what follows from what has happened is told, until nothing more follows.

Tasks behind one that ended badly will never begin, a run that was stopped begins nothing more, and a run
whose tasks have all ended is over. All of it follows from the state alone, so that a restart that finds it
untold tells it then.
"""

from arco.core.errors import StoreFull
from arco.flow.run.desk import Desk
from arco.flow.run.events import run_ended
from arco.flow.run.live import LiveRun
from arco.flow.run.materials import Materials
from arco.flow.run.ports import Fact, Facts
from arco.flow.run.run_state import Doomed
from arco.flow.run.task_state import Ending

_WHAT = "settling a run"
_FIRST_PAUSE_MS = 100
_LONGEST_PAUSE_MS = 10_000


class Settling:
    """Tells what follows, for each run one thing after the other."""

    def __init__(self, desk: Desk, facts: Facts, materials: Materials) -> None:
        self._desk = desk
        self._facts = facts
        self._materials = materials
        self._closed = False

    def close(self) -> None:
        """Tell nothing more: the process ends."""
        self._closed = True

    def soon(self, run: LiveRun) -> None:
        """Something has happened to a run: tell what follows, beside the caller."""
        if run.is_settling:
            run.settle_again = True
        elif self._follows(run):
            run.is_settling = True
            self._desk.beside(_WHAT, self._until_done(run), run=run.run_id)

    def _follows(self, run: LiveRun) -> bool:
        state = run.state
        if state.is_over:
            return False
        return state.is_done or state.is_stopped or state.has_fallen

    async def _until_done(self, run: LiveRun) -> None:
        pause, met = _FIRST_PAUSE_MS, None
        try:
            while not self._closed:
                run.settle_again = False
                try:
                    moved = await self._step(run)
                except Exception as problem:
                    # Nobody waits for this, and the ledger has to know: try for as long as it takes.
                    if type(problem) is not met:
                        self._desk.tell(_WHAT, problem, run=run.run_id)
                        met = type(problem)
                    if isinstance(problem, StoreFull):
                        run.trouble = problem
                        run.ring()
                    await self._desk.clock.sleep(pause)
                    pause = min(2 * pause, _LONGEST_PAUSE_MS)
                    continue
                run.trouble = None
                pause, met = _FIRST_PAUSE_MS, None
                if not moved and not run.settle_again:
                    return
        finally:
            run.is_settling = False

    async def _step(self, run: LiveRun) -> bool:
        """Tell one thing that follows; whether there was any."""
        state = run.state
        if state.is_over:
            return False
        doomed = state.doomed(run.reserved.__contains__)
        if doomed:
            await self._facts.append([self._told(run, each) for each in doomed])
            now_ms = self._desk.clock.now_ms()
            for each in doomed:
                if each.key not in run.reserved:
                    ending = Ending(each.status, each.why, completed_at_ms=now_ms)
                    self._desk.end(run, each.key, ending)
            run.ring()
            return True
        if not state.is_stopped:
            state.forget_fallen()
        if not state.is_done or run.reserved:
            return False
        await self._end(run)
        return True

    def _told(self, run: LiveRun, doomed: Doomed) -> Fact:
        of = run.of_attempt(doomed.key, run.state.tasks[doomed.key].attempt + 1)
        return of.never_began(doomed.status, doomed.why, self._desk.clock.now_ms())

    async def _end(self, run: LiveRun) -> None:
        status, error = run.state.verdict()
        now_ms = self._desk.clock.now_ms()
        times = run.stored.requested_at_ms, now_ms
        await self._facts.append([run_ended(run.run_id, status, error, times)])
        run.state.over(status, error, now_ms)
        self._desk.close_run(run)
        self._materials.forget([each.known for each in self._desk.runs.values() if each.known])
