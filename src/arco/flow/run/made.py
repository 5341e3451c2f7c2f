"""What attempts at a task have published, as the chains of its tables tell it: output by output.

A version names the attempt, and what it is made of. So nothing of it is lost with the worker that made it,
or with the book that gave the task out, and each output is told of by itself: a task with several may have
come to its end between them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from arco.core.clock import utc
from arco.events.partition import PartitionCompleted
from arco.events.task import TaskCompleted
from arco.flow.run.ending import Written, fingerprint_of, part_key
from arco.flow.run.events import OfAttempt, fact
from arco.flow.run.ports import Fact
from arco.flow.run.wire import LeasedTask, OutputPlace


@dataclass(frozen=True)
class Made:
    """An output that an attempt at the task has published; `place` is that among the task's outputs."""

    place: int
    written: Written
    attempt: OfAttempt
    number: int
    code: str | None
    made_of: str | None

    def told(self, at_ms: int) -> Iterator[Fact]:
        """The same as its worker would have told, as far as it is known."""
        of = self.attempt
        if self.written.table_id is None:
            return
        payload = PartitionCompleted(
            table_id=self.written.table_id,
            partition_key=self.written.partition,
            version=self.number,
            materialization_id=of.attempt_id,
            input_fingerprint=self.made_of,
            code_fingerprint=self.code,
            execution_id=of.run_id,
            task_id=of.key,
            attempt=of.attempt,
            completed_at=utc(at_ms),
        )
        yield fact("partition_completed", part_key(of, self.place), of.run_id, payload)


def found_done(made: Sequence[Made], at_ms: int) -> Iterator[Fact]:
    """Everything was published by attempts that were not heard of: the task is done (P35)."""
    for each in made:
        yield from each.told(at_ms)
    last = max(made, key=lambda each: each.attempt.attempt)
    payload = TaskCompleted(
        **last.attempt.names,
        **made[0].written.where(),
        status="SUCCESS",
        published_version=made[0].number,
        completed_at=utc(at_ms),
        output_tables=tuple(each.written.table_id for each in made if each.written.table_id),
        output_partitions=tuple(each.written.partition for each in made),
    )
    key = f"done:{last.attempt.attempt_id}"
    yield fact("task_completed", key, last.attempt.run_id, payload)


def stamped(task: LeasedTask, code: str | None) -> LeasedTask:
    """A task whose publications say what they are made of; for whoever carries it out, who has the code."""
    made_of = fingerprint_of(code, task.inputs)

    def stamp(output: OutputPlace) -> OutputPlace:
        attempt = msgspec.structs.replace(output.attempt, code=code, made_of=made_of)
        return msgspec.structs.replace(output, attempt=attempt)

    return msgspec.structs.replace(task, outputs=tuple(map(stamp, task.outputs)))
