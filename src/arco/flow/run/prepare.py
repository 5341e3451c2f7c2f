"""Before a task is given out: where its tables stand, whether it must be fenced, what it is going to read.

The first attempt at a task, with nobody before it, needs no fence. Any other attempt, and one that takes a
partition over from somebody who was not heard of again, fences first, and so looks whether an earlier
attempt has published: then there is nothing left to do (P35). Neither is there for what would only append
the same rows again that another run has brought in since the plan was made.
"""

from collections.abc import Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from arco.catalog.publication import WHOLE_TABLE, Attempt, Numbered
from arco.core.errors import ArcoError, Conflict, Unavailable, Unknown
from arco.flow.plan.plan import Maker, Reason, Target
from arco.flow.run.desk import Desk
from arco.flow.run.ending import Written, fingerprint_of
from arco.flow.run.lease import find_lease, inputs_given
from arco.flow.run.live import LiveRun
from arco.flow.run.locks import Want
from arco.flow.run.materials import Materials
from arco.flow.run.ports import Fences, Place
from arco.flow.run.task_state import attempt_id_of
from arco.flow.run.wire import InputMaterial, OutputPlace
from arco.storage.store import Store

T = TypeVar("T")

ASSET = "asset"

_APPEND = "append"
_ANYWAY = (Reason.FORCED, Reason.FRESHNESS)  # to be made however good it is
_PASSING = (Unavailable, Unknown, Conflict)


@dataclass(frozen=True)
class Chosen:
    """A task that is being given out."""

    run: LiveRun
    key: str

    @property
    def partition(self) -> str:
        return self.run.state.tasks[self.key].task.partition

    @property
    def attempt(self) -> int:
        return self.run.state.tasks[self.key].attempt + 1

    @property
    def attempt_id(self) -> str:
        return attempt_id_of(self.run.run_id, self.key, self.attempt)


@dataclass(frozen=True)
class Prepared:
    """A task that can be given out."""

    chosen: Chosen
    inputs: tuple[InputMaterial, ...]
    outputs: tuple[OutputPlace, ...]


@dataclass(frozen=True)
class Found:
    """A task that an earlier attempt has done: what it published, output by output.

    `inputs` are what that attempt was given to read; None if nobody knows it any more.
    """

    chosen: Chosen
    published: tuple[tuple[Written, Numbered], ...]
    inputs: tuple[InputMaterial, ...] | None = None

    @property
    def attempt_id(self) -> str:
        """The attempt that has published; the first output tells."""
        return self.published[0][1].publication.attempt_id

    @property
    def attempt(self) -> int:
        """Its number."""
        run, key = self.chosen.run, self.chosen.key
        for attempt in range(1, self.chosen.attempt + 1):
            if attempt_id_of(run.run_id, key, attempt) == self.attempt_id:
                return attempt
        return self.chosen.attempt


@dataclass(frozen=True)
class Needless:
    """A task whose rows another run has appended meanwhile, by the same code and from the same data."""

    chosen: Chosen


@dataclass(frozen=True)
class Hopeless:
    """A task that cannot be given out, now or later."""

    chosen: Chosen
    error: ArcoError


@dataclass(frozen=True)
class NotNow:
    """A task that could not be prepared, and may be later."""

    chosen: Chosen
    error: ArcoError


Result = Prepared | Found | Needless | Hopeless | NotNow


class Preparation:
    """Prepares tasks, several at once."""

    def __init__(self, desk: Desk, store: Store, fences: Fences, materials: Materials) -> None:
        self._desk = desk
        self._store = store
        self._fences = fences
        self._materials = materials

    async def prepare(self, chosen: Sequence[Chosen]) -> list[Result]:
        """What is to become of each; what several of them need is asked for once."""
        if not any(_has_work(each) for each in chosen):
            return [Prepared(each, (), ()) for each in chosen]
        tables = {target.table for each in chosen for target in _targets(each)}
        places = dict(zip(tables, await self._gather(map(self._fences.place, tables)), strict=True))
        inputs = await self._gather(self._inputs(each) for each in chosen)
        pairs = zip(chosen, inputs, strict=True)
        return await self._desk.tasks.gather(*(self._one(*each, places) for each in pairs))

    async def _gather(self, work: Iterable[Coroutine[Any, Any, T]]) -> list[T | ArcoError]:
        """Results, or the errors in their places: what one task needs is not another one's trouble."""
        return await self._desk.tasks.gather(*(_or_error(each) for each in work))

    async def _inputs(self, chosen: Chosen) -> tuple[InputMaterial, ...]:
        run = chosen.run
        while run.known is None:
            known = await self._materials.load(run.plan)
            run.known = known if self._materials.is_whole(known) else None
        task = run.state.tasks[chosen.key].task
        return await self._materials.inputs(run.plan, run.known, task)

    async def _one(
        self,
        chosen: Chosen,
        inputs: tuple[InputMaterial, ...] | ArcoError,
        places: Mapping[str, Place | ArcoError | None],
    ) -> Result:
        try:
            if isinstance(inputs, ArcoError):
                raise inputs
            return await self._prepared(chosen, inputs, places)
        except _PASSING as problem:
            return NotNow(chosen, problem)
        except ArcoError as problem:
            return Hopeless(chosen, problem)

    async def _prepared(
        self,
        chosen: Chosen,
        inputs: tuple[InputMaterial, ...],
        places: Mapping[str, Place | ArcoError | None],
    ) -> Prepared | Found | Needless:
        if self._is_made(chosen, inputs):
            return Needless(chosen)
        outputs: list[OutputPlace] = []
        found: list[tuple[Written, Numbered]] = []
        for target in _targets(chosen):
            place = places[target.table]
            if isinstance(place, ArcoError):
                raise place
            number = await self._standing(chosen, target, place)
            if isinstance(number, Numbered):
                table_id = None if place is None else place.table_id
                found.append((Written(target.table, table_id, chosen.partition), number))
                number = number.number - 1  # who makes the others must not publish this one again
            outputs.append(_output(chosen, target, place, number, self._desk.clock.now_ms()))
        if found and len(found) == len(outputs):
            return await self._found(Found(chosen, tuple(found)))
        return Prepared(chosen, inputs, tuple(outputs))

    async def find(self, chosen: Chosen) -> Found | None:
        """What attempts at a task have published, if it is all of it; if not, none of them can any more."""
        found: list[tuple[Written, Numbered]] = []
        targets = _targets(chosen)
        for target in targets:
            place = await self._fences.place(target.table)
            number = await self._standing(chosen, target, place)
            if place is not None and isinstance(number, Numbered):
                found.append((Written(target.table, place.table_id, chosen.partition), number))
        if not found or len(found) < len(targets):
            return None
        return await self._found(Found(chosen, tuple(found)))

    def _is_made(self, chosen: Chosen, inputs: tuple[InputMaterial, ...]) -> bool:
        """Whether all rows are there that a task would append; whoever replaces may do so twice."""
        run = chosen.run
        maker, task, known = run.maker(chosen.key), run.state.tasks[chosen.key].task, run.known
        if known is None or task.reason in _ANYWAY or not appends(maker):
            return False
        wanted = fingerprint_of(maker.code_fingerprint, inputs)
        there = {
            self._materials.made_of(known, target.table, task.partition) for target in maker.targets
        }
        return wanted is not None and there == {wanted}

    async def _found(self, found: Found) -> Found:
        """The same, with what the attempt was given: its own word for that never came."""
        chosen, hint = found.chosen, await find_lease(self._store, found.attempt_id)
        task = chosen.run.state.tasks[chosen.key].task
        return replace(found, inputs=inputs_given(chosen.run.plan, task, hint))

    async def _standing(
        self, chosen: Chosen, target: Target, place: Place | None
    ) -> Numbered | int:
        """Above which number an attempt may publish, or what an earlier attempt has published."""
        run = chosen.run
        if place is None:
            return -1
        run.table_ids[target.table] = place.table_id
        if run.maker(chosen.key).kind != ASSET:
            return place.number  # what code writes by itself nobody can fence
        want = Want(target.table, chosen.partition)
        known = run.known
        in_doubt = self._desk.locks.is_unsettled(want) or (
            known is not None and (want.table, want.partition) in known.unsettled
        )
        if chosen.attempt == 1 and not in_doubt:
            return place.number
        base = run.stored.bases.get(target.table)
        since = base.number if base is not None and base.table_id == place.table_id else -1
        attempt = _output(chosen, target, place, place.number, self._desk.clock.now_ms()).attempt
        fenced = await self._fences.fence(place.table_id, attempt, since)
        self._desk.locks.settle(want)
        return fenced


def appends(maker: Maker) -> bool:
    """Whether making a partition twice brings its rows in twice."""
    return maker.kind == ASSET and any(target.mode == _APPEND for target in maker.targets)


def _targets(chosen: Chosen) -> tuple[Target, ...]:
    """The tables that a task writes."""
    return chosen.run.maker(chosen.key).targets


async def _or_error(work: Coroutine[Any, Any, T]) -> T | ArcoError:
    try:
        return await work
    except ArcoError as problem:
        return problem


def _has_work(chosen: Chosen) -> bool:
    """Whether there is anything to ask for; much that runs has neither inputs nor tables."""
    task = chosen.run.state.tasks[chosen.key]
    return bool(task.task.inputs or task.maker.targets)


def _output(
    chosen: Chosen, target: Target, place: Place | None, number: int, now_ms: int
) -> OutputPlace:
    partition = chosen.partition
    whole = not partition or target.mode == "replace"
    return OutputPlace(
        table=target.table,
        table_id=None if place is None else place.table_id,
        attempt=Attempt(
            attempt_id=chosen.attempt_id,
            task=f"{chosen.run.run_id}/{chosen.key}",
            dispatched_at_number=number,
            dispatched_at_ms=now_ms,
            partitions=WHOLE_TABLE if whole else (partition,),
        ),
    )
