"""One attempt at an asset, from its inputs to what everybody sees.

Nothing is published before all outputs are staged and all their checks have held, and nothing once the
attempt was stopped.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession

from arco.core.clock import Clock
from arco.core.errors import ArcoError, Invalid
from arco.events.partition_key import parse_partition_key
from arco.flow.define import AssetDef, Project
from arco.flow.run.wire import CheckOutcome, LeasedTask, Outcome, OutputDone, TaskStatus
from arco.flow.spark.call import call_asset
from arco.flow.spark.checks import other_checks
from arco.flow.spark.formats import Formats
from arco.flow.spark.inputs import Inputs
from arco.flow.spark.judging import Judge
from arco.flow.spark.outcome import blocking, output_done, warned, why_blocked
from arco.flow.spark.running import Running
from arco.flow.spark.staging import Written, stage_output
from arco.flow.spark.table_turns import TableTurns
from arco.flow.spark.target import Room, Target
from arco.flow.spark.traced import Traced
from arco.flow.work.port import Lake


@dataclass
class AssetWork:
    """What carries one attempt at an asset out."""

    project: Project
    asset: AssetDef
    running: Running
    lake: Lake
    clock: Clock
    new_session: Callable[[], SparkSession]
    turns: TableTurns = field(default_factory=TableTurns)
    done: list[OutputDone] = field(default_factory=list)  # what is published, should the rest fail

    def run(self) -> Outcome:
        """Read, compute, stage, check and publish."""
        session = self.running.session(self.new_session())
        room = Room(
            session,
            self.lake,
            turns=self.turns,
            heed=self.running.go_on,
            changes=self.running.column_changes,
        )
        formats = Formats(room)
        traced = Traced(session, room, self.running.task)
        try:
            return self._run(room, formats, traced)
        finally:
            formats.close()
            traced.close()

    def _run(self, room: Room, formats: Formats, traced: Traced) -> Outcome:
        running = self.running
        targets = targets_of(self.asset, running.task)
        running.go_on("reading")
        frames = Inputs(self.project, running.task, room, formats).frames(self.asset)
        running.go_on("computing")
        context = running.context(parse_partition_key(running.task.partition) or {})
        results = call_asset(self.asset, frames, room.session, context)
        traced.computed()
        running.go_on("writing")
        there = {each.table for each in running.task.outputs if each.is_made}
        written = [
            self._stage(targets[name], each, room, formats)
            for name, each in results.items()
            if name not in there  # an earlier attempt has published it
        ]
        traced.written()
        running.go_on("checking")
        with self._turns(written, room):
            checks = self._judge(written, room)
            warnings = warned(checks)
            if self.asset.strict or blocking(checks):  # others need not wait for it to publish
                warnings += self._undeclared(traced)
            if blocking(checks):
                return self._blocked(written, checks, warnings, room)
            running.go_on("publishing")
            for each in written:
                each.published = each.tables.publish(each.target, each.staged)
                self.done.append(output_done(each, room.find(each.target.table)))
        warnings += self._describe(written, room)
        if not self.asset.strict:
            warnings += self._undeclared(traced)
        return self._success(written, checks, warnings, traced)

    @contextmanager
    def _turns(self, written: list[Written], room: Room) -> Iterator[None]:
        """What checks have seen of the rows that are there is still so when the others come to them."""
        with ExitStack() as held:
            if self.asset.mode.kind == "merge" and other_checks(self.asset.checks):
                for table in sorted(each.target.table for each in written):
                    held.enter_context(room.turns.take(table, room.heed))
            yield

    def _blocked(
        self, written: list[Written], checks: list[CheckOutcome], warnings: list[str], room: Room
    ) -> Outcome:
        for each in written:
            each.kept_as = each.tables.keep(each.target, each.staged)
        return Outcome(
            status=TaskStatus.BLOCKED,
            error=why_blocked(checks, written),
            outputs=tuple(output_done(each, room.find(each.target.table)) for each in written),
            checks=tuple(checks),
            warnings=tuple(warnings),
            metrics=self.running.metrics,
        )

    def _stage(self, target: Target, frame: DataFrame, room: Room, formats: Formats) -> Written:
        self.running.go_on()
        checks = tuple(each for each in self.asset.checks if each.table == target.table)
        return stage_output(target, frame, checks, room, formats)

    def _judge(self, written: list[Written], room: Room) -> list[CheckOutcome]:
        for each in written:
            each.measures.check_partition(each.metrics)
        judge = Judge(self.project, self.running, self.lake, self.clock, self.new_session)
        found: list[CheckOutcome] = []
        for each in written:
            found += judge.outcomes(each, room.find(each.target.table))
        return found

    def _undeclared(self, traced: Traced) -> list[str]:
        found = traced.undeclared(self.asset)
        if not found:
            return []
        told = f"it reads {', '.join(found)} without having declared it"
        if self.asset.strict:
            raise Invalid(f"{self.asset.where}: {told}: add a parameter with table(...) for each")
        self.running.log(told)
        return [told]

    def _describe(self, written: list[Written], room: Room) -> list[str]:
        """Comment, owner and tags; what does not work is told, and the data stay."""
        warnings: list[str] = []
        for each in written:
            table = room.find(each.target.table)
            if table is None:
                continue
            try:
                self.lake.describe(table, each.target.wanted())
            except ArcoError as problem:
                warnings.append(f"{table.name} could not be described: {problem}")
        return warnings

    def _success(
        self,
        written: list[Written],
        checks: list[CheckOutcome],
        warnings: list[str],
        traced: Traced,
    ) -> Outcome:
        now_ms = self.clock.now_ms()
        lineage = [
            traced.event(self.asset, each.target, now_ms, place=each.staged.place, frame=each.frame)
            for each in written
        ]
        rows, size = traced.totals()
        for note in traced.notes:
            self.running.log(note)
        return Outcome(
            status=TaskStatus.SUCCESS,
            outputs=tuple(self.done),
            checks=tuple(checks),
            lineage=tuple(lineage),
            rows_read=rows,
            bytes_read=size,
            metrics=self.running.metrics,
            warnings=tuple(dict.fromkeys(warnings)),
        )


def targets_of(asset: AssetDef, task: LeasedTask) -> dict[str, Target]:
    """What an attempt is going to write, by table."""
    places = {each.table: each for each in task.outputs}
    found: dict[str, Target] = {}
    for output in asset.outputs:
        place = places.get(output.table)
        if place is None:
            raise Invalid(f"the task {task.key} was leased without its output {output.table}")
        found[output.table] = Target(
            table=output.table,
            format=asset.format,
            partition=task.partition,
            values=parse_partition_key(task.partition) or {},
            mode=asset.mode,
            attempt=place.attempt,
            on_missing_column=asset.on_missing_column,
            replaces=place.replaces,
            comment=asset.description or None,
            owner=asset.owner,
            tags=asset.tags,
        )
    return found
