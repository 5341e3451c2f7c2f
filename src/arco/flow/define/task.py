"""Tasks: code that reads and writes by itself, where returning a frame does not fit."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from arco.flow.define.asset import OutputDef
from arco.flow.define.collect import complain, current, here
from arco.flow.define.decorated import check_plain, without_call
from arco.flow.define.name import full_name, last_part
from arco.flow.define.option import Cut, description_of, partitions_of, running_of
from arco.flow.define.retry import Retry
from arco.flow.define.source import SourceDef
from arco.flow.define.table import GIVEN, InputDef, TableRef, inputs_of
from arco.flow.define.where import SourceLine
from arco.flow.partition import Partitions

F = TypeVar("F", bound=Callable[..., object])
T = TypeVar("T")


@dataclass(frozen=True)
class TaskDef:
    """All that is declared of a task: it tells what it reads and writes, and does both itself."""

    name: str
    inputs: tuple[InputDef, ...]
    outputs: tuple[OutputDef, ...]
    partitions: Partitions
    function: Callable[..., object]
    retries: Retry
    timeout_ms: int | None
    pool: str
    tags: tuple[str, ...]
    owner: str | None
    description: str
    where: SourceLine


def task(
    name: str | None = None,
    *,
    reads: Sequence[str | SourceDef | TableRef] = (),
    writes: Sequence[str] = (),
    partitions: Cut = None,
    retries: int | Retry | None = None,
    timeout: str | None = None,
    pool: str | None = None,
    tags: Sequence[str] = (),
    owner: str | None = None,
    description: str | None = None,
) -> Callable[[F], F]:
    """Declare that a function does something for its effect; it is given `ctx` and `spark` if it asks."""
    if callable(name):
        return without_call("task", "writes=['ml.model']", name)
    outputs = tuple(OutputDef("", full_name(each)) for each in _several("writes", writes))
    cut = partitions_of(partitions)
    running = running_of(retries, timeout, pool, tags, owner)

    def declare(function: F) -> F:
        where = here()
        check_plain(function)
        read = tuple(_read(each, where) for each in _several("reads", reads))
        _refuse_parameters(function, where)
        made = TaskDef(
            name=name or function.__name__,
            inputs=read,
            outputs=outputs,
            partitions=cut,
            function=function,
            retries=running.retries,
            timeout_ms=running.timeout_ms,
            pool=running.pool,
            tags=running.tags,
            owner=running.owner,
            description=description_of(description, function),
            where=where,
        )
        if (collection := current()) is not None:
            collection.tasks.append(made)
        return function

    return declare


def _several(what: str, names: Sequence[T]) -> Sequence[T]:
    """A text is a sequence too, but of letters."""
    if isinstance(names, str):
        complain(f"{what} is a list of tables: write {what}=[{names!r}]")
        return ()
    return names


def _read(said: str | SourceDef | TableRef, where: SourceLine) -> InputDef:
    if isinstance(said, TableRef):
        return said.input(last_part(said.name))
    called = said.name if isinstance(said, SourceDef) else full_name(said)
    return InputDef(last_part(called), called, where=where)


def _refuse_parameters(function: Callable[..., object], where: SourceLine) -> None:
    """A task opens its tables itself: a parameter that nobody fills would fail when it runs."""
    for each in inputs_of(function, where):
        complain(
            f"the task {function.__name__!r} has a parameter {each.parameter!r} that nobody fills: "
            f"a task is given {' and '.join(sorted(GIVEN))}, and opens the tables of reads=[...] itself"
        )
