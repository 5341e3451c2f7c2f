"""Before a task is given out: where its tables stand, whether it must be fenced, what it is going to read.

The first attempt at a task, with nobody before it, needs no fence. Any other attempt, and one that takes a
partition over from somebody who was not heard of again, fences first, and so looks which outputs an earlier
attempt has published (P35). What another run has made meanwhile, by the same code from the same data, is
there as well, and so are rows that an earlier run has appended of which this one is the retry. What is
there is not published again; if that is all of it, there is nothing left to do.
"""

from collections.abc import Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from arco.catalog.publication import WHOLE_TABLE, Attempt, Numbered
from arco.core.errors import ArcoError, Conflict, Invalid, Unavailable, Unknown
from arco.flow.plan.plan import Maker, PlanTarget, Reason
from arco.flow.run.desk import Desk
from arco.flow.run.ending import Written, fingerprint_of
from arco.flow.run.lease import find_lease, inputs_given
from arco.flow.run.live import LiveRun
from arco.flow.run.locks import Want
from arco.flow.run.made import Made
from arco.flow.run.materials import Last, Materials
from arco.flow.run.ports import Fences, Place
from arco.flow.run.task_state import attempt_id_of, attempt_ids_of, attempt_of, most_attempts
from arco.flow.run.wire import InputMaterial, OutputPlace
from arco.storage.store import Store

T = TypeVar("T")

ASSET = "asset"

_APPEND = "append"
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
    """A task that can be given out; `found` are outputs that earlier attempts at it have published."""

    chosen: Chosen
    inputs: tuple[InputMaterial, ...]
    outputs: tuple[OutputPlace, ...]
    found: tuple[Made, ...] = ()

    @property
    def stands(self) -> tuple[Written, ...]:
        """What is not to be published again."""
        partition = self.chosen.partition
        return tuple(
            Written(each.table, each.table_id, partition) for each in self.outputs if each.is_made
        )


@dataclass(frozen=True)
class Found:
    """A task that earlier attempts have done: what they published, output by output."""

    chosen: Chosen
    found: tuple[Made, ...]


@dataclass(frozen=True)
class Needless:
    """A task whose rows are all there, though not, or not all, by attempts at it."""

    chosen: Chosen
    stands: tuple[Written, ...]
    found: tuple[Made, ...] = ()


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
        there = self._there(chosen, inputs)
        outputs: list[OutputPlace] = []
        found: list[Made] = []
        for number, target in enumerate(_targets(chosen)):
            place = places[target.table]
            if isinstance(place, ArcoError):
                raise place
            head = await self._standing(chosen, target, place)
            is_made = target.table in there
            if isinstance(head, Numbered):
                found.append(await self._made(chosen, number, place, head))
                is_made, head = True, head.number - 1
            elif place is not None and not is_made:
                is_made, head = await self._before(chosen, target, place, head)
            replaces = not is_made and self._replaces(chosen, target)
            now_ms = self._desk.clock.now_ms()
            output = _output(chosen, target, place, head, now_ms, is_made=is_made)
            outputs.append(msgspec.structs.replace(output, replaces=replaces))
        prepared = Prepared(chosen, inputs, tuple(outputs), tuple(found))
        if not outputs or len(prepared.stands) < len(outputs):
            return prepared
        if len(found) == len(outputs):
            return Found(chosen, prepared.found)
        return Needless(chosen, prepared.stands, prepared.found)

    async def find(self, chosen: Chosen) -> tuple[Made, ...]:
        """What attempts at a task have published; nothing else of it can be published by them any more."""
        found: list[Made] = []
        for number, target in enumerate(_targets(chosen)):
            place = await self._fences.place(target.table)
            head = await self._standing(chosen, target, place)
            if isinstance(head, Numbered):
                found.append(await self._made(chosen, number, place, head))
        return tuple(found)

    def _there(self, chosen: Chosen, inputs: tuple[InputMaterial, ...]) -> set[str]:
        """The outputs that others have made since the plan, by the same code from the same data.

        Rows that are appended must not come twice, so there it does not matter when they came; and what a
        run has published of which this one is the retry is there whatever has changed since.
        """
        run = chosen.run
        maker, task, known = run.maker(chosen.key), run.state.tasks[chosen.key].task, run.known
        if known is None or maker.kind != ASSET:
            return set()
        last = {
            target.table: self._materials.last(known, target.table, task.partition)
            for target in maker.targets
        }
        there: set[str] = set()
        if appends(maker):
            tried = _tried(chosen)
            there = {table for table, each in last.items() if each.material in tried}
        wanted = fingerprint_of(maker.code_fingerprint, inputs)
        if wanted is None:
            return there
        return there | {
            table
            for table, each in last.items()
            if each.made_of == wanted and _suffices(each, task.reason, maker)
        }

    def _replaces(self, chosen: Chosen, target: PlanTarget) -> bool:
        """Whether rows that were appended before have to go; `Invalid` if they would be doubled.

        The plan has refused what was appended when it was made. What other runs have appended since, before
        this task or the retry of its run came to its turn, is known here.
        """
        run, known = chosen.run, chosen.run.known
        if known is None or run.maker(chosen.key).kind != ASSET or target.mode != _APPEND:
            return False
        is_appended = (
            self._materials.last(known, target.table, chosen.partition).material is not None
        )
        if not is_appended or chosen.key in run.append_again:
            return False
        if target.on_change != "replace":
            raise Invalid(
                f"another run has appended {chosen.key} to {target.table} since this run was planned, from "
                "other code or data, and its rows would be added a second time: plan again with `arco run`,"
                " and pass --append-again if that is what you want"
            )
        return True

    async def _made(self, chosen: Chosen, place: int, at: Place | None, head: Numbered) -> Made:
        """An output that was published; the version tells what it is made of, or else plan and hint."""
        run, said = chosen.run, head.publication
        target, task = _targets(chosen)[place], run.state.tasks[chosen.key].task
        code, made_of = said.code, said.made_of
        if code is None or made_of is None:
            hint = await find_lease(self._store, said.attempt_id)
            inputs = inputs_given(run.plan, task, None if hint is None else hint.inputs)
            code = run.maker(chosen.key).code_fingerprint
            made_of = fingerprint_of(code, inputs)
        return Made(
            place,
            Written(target.table, None if at is None else at.table_id, chosen.partition),
            run.of_attempt(chosen.key, _attempt(chosen, said.attempt_id)),
            head.number,
            code,
            made_of,
        )

    async def _standing(
        self, chosen: Chosen, target: PlanTarget, place: Place | None
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
        fenced = await self._fence(chosen, target, place, run.run_id)
        self._desk.locks.settle(want)
        return fenced

    async def _before(
        self, chosen: Chosen, target: PlanTarget, place: Place, head: int
    ) -> tuple[bool, int]:
        """Whether a run of which this one is the retry has appended its rows, and the head after that.

        Others may have appended theirs since, so that the last publication does not tell it. What those
        runs have not published they cannot publish any more.
        """
        run = chosen.run
        if run.maker(chosen.key).kind != ASSET or target.mode != _APPEND:
            return False, head
        for before in run.stored.wish.after:
            fenced = await self._fence(chosen, target, place, before)
            if isinstance(fenced, Numbered):
                return True, head
            head = fenced
        return False, head

    async def _fence(
        self, chosen: Chosen, target: PlanTarget, place: Place, run_id: str
    ) -> Numbered | int:
        """What a run has published for the task, or else the number of a fence with the attempt's name."""
        base = chosen.run.stored.bases.get(target.table)
        since = base.number if base is not None and base.table_id == place.table_id else -1
        attempt = _output(chosen, target, place, place.number, self._desk.clock.now_ms()).attempt
        theirs = msgspec.structs.replace(attempt, task=_task(run_id, chosen.key))
        return await self._fences.fence(place.table_id, theirs, since)


def _task(run_id: str, key: str) -> str:
    """A task of a run, as versions name it."""
    return f"{run_id}/{key}"


def _attempt(chosen: Chosen, attempt_id: str) -> int:
    """The number of an attempt at a task."""
    before = attempt_of(attempt_id, chosen.run.run_id, chosen.key, chosen.attempt - 1)
    return before or chosen.attempt


def _tried(chosen: Chosen) -> set[str]:
    """The attempts of the runs before, of which this one is the retry."""
    most = most_attempts(chosen.run.maker(chosen.key).retry)
    return {
        attempt_id
        for before in chosen.run.stored.wish.after
        for attempt_id in attempt_ids_of(before, chosen.key, most)
    }


def _suffices(last: Last, reason: Reason, maker: Maker) -> bool:
    """Whether data that are as they would be made now will do.

    Those that were there when the plan was made are too old for it, or an attempt to replace them failed.
    """
    if reason is Reason.FORCED:
        return False
    if last.is_new:
        return True
    return reason is not Reason.FRESHNESS and (reason is not Reason.FAILED or appends(maker))


def appends(maker: Maker) -> bool:
    """Whether making a partition twice brings its rows in twice."""
    return maker.kind == ASSET and any(target.mode == _APPEND for target in maker.targets)


def _targets(chosen: Chosen) -> tuple[PlanTarget, ...]:
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
    chosen: Chosen,
    target: PlanTarget,
    place: Place | None,
    number: int,
    now_ms: int,
    *,
    is_made: bool = False,
) -> OutputPlace:
    partition = chosen.partition
    whole = not partition or target.mode == "replace"
    return OutputPlace(
        table=target.table,
        table_id=None if place is None else place.table_id,
        attempt=Attempt(
            attempt_id=chosen.attempt_id,
            task=_task(chosen.run.run_id, chosen.key),
            dispatched_at_number=number,
            dispatched_at_ms=now_ms,
            partitions=WHOLE_TABLE if whole else (partition,),
        ),
        is_made=is_made,
    )
