"""The tables that a task reads, in their current versions, filtered to the partitions of the task."""

from dataclasses import dataclass

from pyspark.sql import DataFrame

from arco.core.clock import utc
from arco.core.errors import Invalid
from arco.flow.coordinator.messages import LeasedTask
from arco.flow.define import AssetDef, InputDef, Project, TaskDef
from arco.flow.partition import (
    MappingContext,
    Partitions,
    PartitionSet,
    all_partitions,
    checked_dynamic_values,
)
from arco.flow.spark.format_registry import TableFormats
from arco.flow.spark.table_format import TableContext

_UNPARTITIONED = Partitions(())


@dataclass(frozen=True)
class TaskInputs:
    """What one task may read."""

    project: Project
    task: LeasedTask
    table_context: TableContext
    formats: TableFormats

    def frames(self, maker: AssetDef | TaskDef) -> dict[str, DataFrame | None]:
        """The frame for each parameter of a function, or for each table that a query names.

        None where an asset reads its own table and has no earlier partition: at first there is no table
        that has columns, and the code should not see a difference later.
        """
        own_tables = {each.table for each in maker.outputs}
        frames: dict[str, DataFrame | None] = {}
        for declared in maker.inputs:
            chosen = self.partitions(declared, maker)
            is_first = declared.table in own_tables and not chosen
            frames[declared.parameter] = None if is_first else self._read(declared.table, chosen)
        return frames

    def frame(self, input_def: InputDef, maker: AssetDef | TaskDef) -> DataFrame:
        """What the task reads of one input."""
        return self._read(input_def.table, self.partitions(input_def, maker))

    def read_all(self, table: str) -> DataFrame:
        """All rows of the current version of a table."""
        return self._read(table, PartitionSet.of((), [()]))

    def partitions(self, input_def: InputDef, maker: AssetDef | TaskDef) -> PartitionSet:
        """The partitions of an input that the task reads."""
        table_partitions = self.project.tables.get(input_def.table, _UNPARTITIONED)
        dynamic = checked_dynamic_values(self.task.dynamic)
        reading = MappingContext(maker.partitions, table_partitions, utc(self.task.now_ms), dynamic)
        mapping = input_def.mapping or all_partitions
        chosen = mapping.upstream_set(self.task.partition, reading)
        leased = self._leased_partitions(input_def, maker)
        if leased is None or len(leased) >= len(chosen):
            return chosen
        if not input_def.skips_missing(maker.partitions, table_partitions):
            return chosen
        return chosen & PartitionSet.of_keys(table_partitions.axes(dynamic), leased)

    def _leased_partitions(
        self, input_def: InputDef, maker: AssetDef | TaskDef
    ) -> tuple[str, ...] | None:
        """The partitions of an input that had data when the task was leased.

        None if the plan has other inputs than the loaded code: then the code decides what is read.
        """
        if [each.table for each in self.task.inputs] != [each.table for each in maker.inputs]:
            return None
        at = next(n for n, each in enumerate(maker.inputs) if each is input_def)
        return self.task.inputs[at].partitions

    def _read(self, table: str, chosen: PartitionSet) -> DataFrame:
        lake_table = self.table_context.find(table)
        if lake_table is None:
            raise Invalid(f"there is no table {table}: run the asset that makes it, or load it")
        self.table_context.chosen.setdefault(lake_table.name, []).append(chosen)
        return self.formats.get(lake_table.format, table).read(lake_table, chosen)
