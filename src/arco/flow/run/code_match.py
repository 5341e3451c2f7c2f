"""Which worker has the code that a task was planned with, and which runs wait for code that none has.

A maker of a plan names the fingerprints of its code and checks; a worker offers those that it has loaded.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from arco.flow.plan.plan import Maker
from arco.flow.run.live import LiveRun
from arco.flow.run.wire import CodeWait, MakerCode, Offer, TaskStatus, WorkerCode


def planned_code(maker: Maker) -> MakerCode | None:
    """The code that tasks of a maker were planned with; None if the plan names none."""
    if maker.code_fingerprint is None:
        return None
    return MakerCode(code=maker.code_fingerprint, checks=maker.checks_fingerprint)


def has_code(offer: Offer, maker: Maker) -> bool:
    """Whether a worker has loaded the code that tasks of a maker were planned with."""
    planned = planned_code(maker)
    return planned is None or offer.code.get(maker.name) == planned


def makers_for(run: LiveRun, offer: Offer) -> frozenset[str]:
    """The makers of a run whose planned code a worker has."""
    return frozenset(each.name for each in run.plan.makers if has_code(offer, each))


def takes_pool(offer: Offer, pool: str) -> bool:
    """Whether a worker takes tasks of a pool."""
    return not offer.pools or pool in offer.pools


def lacks_code(run: LiveRun, offer: Offer) -> bool:
    """Whether a run has ready tasks that a worker would take if it had their code."""
    makers = {each.name: each for each in run.plan.makers}
    return any(
        takes_pool(offer, pool)
        and not has_code(offer, makers[maker])
        and any(_is_ready(run, key) for key in keys)
        for pool, maker, keys in run.queue.waiting()
    )


@dataclass(frozen=True)
class CodeWaits:
    """The ready tasks of a run whose code none of the connected workers has."""

    run: LiveRun
    connected: tuple[Offer, ...]  # the last offer of each

    def find(self) -> tuple[CodeWait, ...]:
        """By maker; none of makers whose tasks some worker can take."""
        run = self.run
        if run.state.is_over or run.state.is_stopped:
            return ()
        mine = tuple(each for each in self.connected if run.is_for(each.worker, each.project))
        return tuple(self._waits(mine))

    def _waits(self, mine: tuple[Offer, ...]) -> Iterator[CodeWait]:
        makers = {each.name: each for each in self.run.plan.makers}
        for pool, name, keys in self.run.queue.waiting():
            planned = planned_code(makers[name])
            ready = sum(_is_ready(self.run, key) for key in keys)
            takers = [each for each in mine if takes_pool(each, pool)]
            if planned is None or not ready or any(has_code(each, makers[name]) for each in takers):
                continue
            offered = (WorkerCode(worker=each.worker, code=each.code.get(name)) for each in takers)
            yield CodeWait(maker=name, tasks=ready, planned=planned, workers=tuple(offered))


def _is_ready(run: LiveRun, key: str) -> bool:
    return run.state.tasks[key].status is TaskStatus.READY and key not in run.reserved
