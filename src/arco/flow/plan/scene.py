"""Everything that a plan is a function of, but for what was asked."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property

from arco.core.errors import Invalid
from arco.flow.define.option import UNPARTITIONED
from arco.flow.define.project import Project
from arco.flow.define.table import InputDef
from arco.flow.define.where import raised_at
from arco.flow.partition import MappingContext, PartitionSet, checked_dynamic_values
from arco.flow.partition.dimension import DynamicValues, require_moment
from arco.flow.plan.graph import Graph, MakerDef
from arco.flow.plan.inputs import Input
from arco.flow.plan.key import short_name
from arco.flow.plan.known import Known, KnownTable
from arco.flow.state import State


@dataclass(frozen=True)
class Scene:
    """A project, what is known of its tables, and the time."""

    project: Project
    state: State
    now: datetime

    def __post_init__(self) -> None:
        require_moment(self.now)

    @cached_property
    def graph(self) -> Graph:
        """Who reads from whom."""
        return Graph(self.project)

    @cached_property
    def checked_dynamic_values(self) -> DynamicValues:
        """What is known of the tables."""
        makers = [each.name for each in self.project.makers() if not each.outputs]
        return Known(self.state, frozenset([*self.project.made_by, *makers]))

    @cached_property
    def dynamic(self) -> DynamicValues:
        """The values of dynamic dimensions."""
        return checked_dynamic_values(self.state.dynamic)

    @cached_property
    def now_ms(self) -> int:
        """The time in milliseconds since 1970."""
        since = self.now.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)
        return since.days * 86_400_000 + since.seconds * 1_000 + since.microseconds // 1_000

    def outputs(self, maker: MakerDef) -> list[KnownTable]:
        """The tables whose state tells how far a maker is; one that writes none has a state of its own."""
        names = [each.table for each in maker.outputs] or [maker.name]
        return [self.known.table(name) for name in names]

    @contextmanager
    def asking(self, maker: MakerDef, declared: InputDef) -> Iterator[None]:
        """Where a mapping is asked: what is wrong with it is told with its file, line, maker and table."""
        try:
            yield
        except Invalid as wrong:
            cause = wrong.__cause__
            raised = None if cause is None else raised_at(cause, self.project.folder)
            maker_name, table = short_name(maker.name), short_name(declared.table)
            told = f"{raised or declared.where}: {maker_name} cannot read {table} so: {wrong}"
            raise Invalid(told) from (cause or wrong)

    def compared_with(self, maker: MakerDef) -> list[KnownTable]:
        """The tables that only the checks of a maker look into."""
        return [self.known.table(name) for name in self.project.compared_with(maker)]

    def inputs(self, maker: MakerDef, chosen: PartitionSet) -> Sequence[Input]:
        """What some partitions of a maker read."""
        own = {each.table for each in maker.outputs}
        found: list[Input] = []
        for declared in maker.inputs:
            if declared.mapping is None:
                raise Invalid(
                    f"{maker.name} cannot read {declared.table} as it is declared: "
                    "`arco validate` tells why"
                )
            reads = self.project.tables.get(declared.table, UNPARTITIONED)
            reading = MappingContext(maker.partitions, reads, self.now, self.dynamic)
            with self.asking(maker, declared):
                upstreams = declared.mapping.upstreams(chosen, reading)
            table = self.known.table(declared.table)
            partly = declared.skips_missing(maker.partitions, reads)
            found.append(Input(declared, table, upstreams, declared.table in own, partly))
        return found
