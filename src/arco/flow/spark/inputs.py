"""Inputs: the tables that a task reads, as they stand now, cut down to the partitions that are its own."""

from dataclasses import dataclass

from pyspark.sql import DataFrame

from arco.core.clock import utc
from arco.core.errors import Invalid
from arco.flow.define import AssetDef, InputDef, Project, TaskDef
from arco.flow.partition import (
    MappingContext,
    Partitions,
    PartitionSet,
    all_partitions,
    checked_dynamic_values,
)
from arco.flow.run.wire import LeasedTask
from arco.flow.spark.formats import Formats
from arco.flow.spark.target import Room

_WHOLE = Partitions(())


@dataclass(frozen=True)
class Inputs:
    """What one task may read."""

    project: Project
    task: LeasedTask
    room: Room
    formats: Formats

    def frames(self, maker: AssetDef | TaskDef) -> dict[str, DataFrame | None]:
        """The frame for each parameter of a function, or for each table that a query names.

        None where an asset reads its own table and there is no partition before: the first time there is
        no table either that could tell the columns, and later it should not be another story.
        """
        return {each.parameter: self._own_or(each, maker) for each in maker.inputs}

    def whole(self, table: str) -> DataFrame:
        """All of a table as it stands now."""
        return self._read(table, PartitionSet.of((), [()]))

    def chosen(self, said: InputDef, maker: AssetDef | TaskDef) -> PartitionSet:
        """The partitions of an input that the task reads."""
        reads = self.project.tables.get(said.table, _WHOLE)
        dynamic = checked_dynamic_values(self.task.dynamic)
        reading = MappingContext(maker.partitions, reads, utc(self.task.now_ms), dynamic)
        chosen = (said.mapping or all_partitions).upstream_set(self.task.partition, reading)
        given = self._given(said, maker)
        if given is None or len(given) >= len(chosen):
            return chosen
        if not said.skips_missing(maker.partitions, reads):
            return chosen
        return chosen & PartitionSet.of_keys(reads.axes(dynamic), given)

    def _given(self, said: InputDef, maker: AssetDef | TaskDef) -> tuple[str, ...] | None:
        """The partitions of an input that had data when the task was leased, as the plan lists inputs.

        None if the plan knows other inputs than the code that runs: then it reads what the code says.
        """
        if [each.table for each in self.task.inputs] != [each.table for each in maker.inputs]:
            return None
        at = next(n for n, each in enumerate(maker.inputs) if each is said)
        return self.task.inputs[at].partitions

    def frame(self, said: InputDef, maker: AssetDef | TaskDef) -> DataFrame:
        """What the task reads of one input."""
        return self._read(said.table, self.chosen(said, maker))

    def _own_or(self, said: InputDef, maker: AssetDef | TaskDef) -> DataFrame | None:
        chosen = self.chosen(said, maker)
        if said.table in {each.table for each in maker.outputs} and not chosen:
            return None
        return self._read(said.table, chosen)

    def _read(self, table: str, chosen: PartitionSet) -> DataFrame:
        found = self.room.find(table)
        if found is None:
            raise Invalid(f"there is no table {table}: run what makes it first, or load it")
        self.room.chosen.setdefault(found.name, []).append(chosen)
        return self.formats.of(found.format, table).read(found, chosen)
