"""`arco partitions`: the partitions of a table as a calendar or grid, and values of dynamic dimensions."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from arco.cli.flags import AsJson, Server, TableName
from arco.cli.flow.flags import EmbeddedAddress, FormatFlag, ProjectDir, command
from arco.cli.settings import Flag
from arco.core.errors import Invalid, NotFound

if TYPE_CHECKING:
    from arco.cli.flow.partition_grid import PartitionMark
    from arco.cli.flow.project import LoadedProject
    from arco.client import Arco
    from arco.flow.partition import Partitions
    from arco.flow.plan.context import TableIndex
    from arco.flow.plan.table_state import PlanningState

_EXAMPLES = """\
Examples:
  arco partitions silver.orders            as a calendar or a grid
  arco partitions silver.orders --json     as JSON, each with its status
  arco partitions add customer acme globex   add values to a dynamic dimension
  arco partitions add customer acme --remove
  arco partitions clear silver.orders 2026-01-15   delete its rows, to make it again

C is complete, S stale, R running, O failed with older data still served, F failed
without any data, . missing. If there are too many to show, they are counted by
month or year."""

_SERVER, _ADDRESS = Server(), EmbeddedAddress()

app = command("partitions", "Show the partitions of a table.", _EXAMPLES)


@app.default
def partitions(
    table: TableName,
    /,
    *,
    project: ProjectDir = None,
    format_: FormatFlag = None,
    server: Server = _SERVER,
    address: EmbeddedAddress = _ADDRESS,
    json: AsJson = False,
) -> None:
    """Show which partitions of a table are complete, missing or stale.

    Parameters
    ----------
    server
        The server to read the state from.
    address
        Start a server for this command only.
    """
    from arco.cli.flow.connection import ArcoTarget, connect_arco
    from arco.cli.flow.project import load
    from arco.core.runtime import system_runtime
    from arco.core.tasks import run
    from arco.flow.plan.graph import suggest
    from arco.flow.plan.keys import short_name
    from arco.flow.table_name import qualified_name

    loaded, runtime, name = load(project, format_), system_runtime(), qualified_name(table)
    if name not in loaded.project.tables:
        names = {short_name(each) for each in loaded.project.tables}
        unknown = Invalid(
            f"the project {loaded.project.name} declares no table {table!r}{suggest(table, names)}"
        )
        unknown.add_note("Check the name, or name another project with --project.")
        raise unknown

    async def work() -> "PlanningState":
        target = ArcoTarget(server, address)
        async with connect_arco(target, runtime, needs_coordinator=False) as arco:
            return await arco.coordinator.state(loaded.tables, loaded.replaced)

    status = _TableStatus.of(loaded, name, run(work()), runtime.clock.now_ms())
    status.print_document() if json else status.print()


@app.command
def add(
    dimension: Annotated[str, Parameter(metavar="DIMENSION", show_env_var=False)],
    /,
    *values: Annotated[str, Parameter(metavar="VALUE", show_env_var=False)],
    remove: Flag = False,
    server: Server = _SERVER,
    address: EmbeddedAddress = _ADDRESS,
    json: AsJson = False,
) -> None:
    """Add values to a dynamic dimension: each becomes a partition.

    Parameters
    ----------
    dimension
        The name of the dimension, such as customer for Dynamic("customer").
    values
        The values to add.
    remove
        Remove the values instead. Their data stay.
    server
        The running server.
    address
        Start a server for this command only.
    """
    from arco.cli.flow.connection import ArcoTarget, call_arco
    from arco.cli.flow.text_format import count_of
    from arco.cli.output import print_document

    if not values:
        raise Invalid("there is no value to add: arco partitions add customer acme")

    def change(arco: "Arco") -> None:
        flow = arco.flow
        (flow.remove_partition_values if remove else flow.add_partition_values)(dimension, values)

    call_arco(ArcoTarget(server, address), change, creates_store=not remove)
    if json:
        print_document({"dimension": dimension, "values": values, "removed": remove})
    else:
        verb = "Took" if remove else "Added"
        what = "from" if remove else "to"
        print(f"{verb} {count_of(len(values), 'value')} {what} the dimension {dimension}.")
    if not remove and (slip := _unknown_dimension(dimension)) is not None:
        print(f"arco: {slip}. With --remove they are taken away.", file=sys.stderr)


@app.command
def clear(
    table: TableName,
    /,
    *partitions: Annotated[str, Parameter(metavar="PARTITION", show_env_var=False)],
    yes: Annotated[
        bool,
        Parameter(
            name="--yes", negative="", show_default=False, help="Do not ask for confirmation."
        ),
    ] = False,
    server: Server = _SERVER,
    address: EmbeddedAddress = _ADDRESS,
    json: AsJson = False,
) -> None:
    """Delete the rows and recorded state of partitions, so that they are made again.

    Parameters
    ----------
    partitions
        Existing partitions: keys, values, ranges such as 2026-01-01..2026-01-31, or all.
    server
        The running server.
    address
        Start a server for this command only.
    """
    from arco.cli.flow.connection import ArcoTarget, call_in_thread, connect_arco
    from arco.cli.flow.partition_clearing import PartitionClearing, chosen_partitions
    from arco.cli.flow.text_format import count_of
    from arco.cli.output import print_document
    from arco.core.runtime import system_runtime
    from arco.core.tasks import run
    from arco.flow.plan.keys import short_name
    from arco.flow.table_name import qualified_name

    if not partitions:
        raise Invalid("no partition is named: arco partitions clear silver.orders ds=2026-01-15")
    runtime, name, target = system_runtime(), qualified_name(table), ArcoTarget(server, address)

    async def work() -> tuple[tuple[str, ...], int] | None:
        async with connect_arco(target, runtime, needs_coordinator=False) as connected:
            state = (await connected.coordinator.state([name])).tables[name]
            keys = chosen_partitions(name, state, partitions)

            def clear_confirmed(arco: "Arco") -> int | None:
                if not yes and not _is_confirmed(short_name(name), keys):
                    return None
                token = connected.token
                return PartitionClearing(arco, runtime, name, state, token).clear(keys)

            number = await call_in_thread(target, connected, runtime, clear_confirmed)
            return None if number is None else (keys, number)

    done = run(work())
    if done is None:
        print("Nothing was cleared.")
        return
    keys, number = done
    if json:
        print_document({"table": name, "partitions": list(keys), "version": number})
    else:
        many = count_of(len(keys), "partition")
        print(f"Cleared {many} of {short_name(name)} in version {number}; the next run makes them.")


def _is_confirmed(table: str, keys: Sequence[str]) -> bool:
    from arco.flow.plan.keys import describe_keys

    if not sys.stdin.isatty():
        raise Invalid("there is no terminal to ask on whether rows may be removed: pass --yes")
    answer = input(
        f"Remove the rows of {describe_keys(keys)} from {table}, for all readers? [y/N] "
    )
    return answer.strip().lower() in ("y", "yes")


def _unknown_dimension(dimension: str) -> str | None:
    """That the project at hand, if there is one, has no such dimension: values of it make nothing."""
    from arco.cli.flow.project import find_folder, load_folder
    from arco.flow.partition import Dynamic
    from arco.flow.plan.graph import suggest

    try:
        project = load_folder(find_folder(None))
    except NotFound:
        return None
    cuts = [each.partitions for each in (*project.makers(), *project.sources)]
    names = {each.name for cut in cuts for each in cut if isinstance(each, Dynamic)}
    if dimension in names or project.unread:
        return None
    message = f"the project {project.name} has no dimension Dynamic({dimension!r})"
    return f"{message}{suggest(dimension, names)}"


@dataclass(frozen=True)
class _TableStatus:
    """The partitions of one table and their status."""

    name: str
    cut: "Partitions"
    table: "TableIndex"
    marks: Mapping[str, "PartitionMark"]

    @classmethod
    def of(
        cls, loaded: "LoadedProject", name: str, state: "PlanningState", now_ms: int
    ) -> "_TableStatus":
        from arco.cli.flow.partition_grid import PartitionMark, marks_of
        from arco.core.clock import utc
        from arco.flow.plan.context import StateIndex

        cut = loaded.project.tables[name]
        known_table = StateIndex(state, frozenset(loaded.project.made_by)).table(name)
        existing = list(cut.keys(utc(now_ms), state.dynamic))
        stale, current = _stale_and_current(loaded, name, state, now_ms, existing)
        marks = marks_of(known_table, existing, stale, current)
        # What was cleared and is not declared any more is no partition of the table now.
        gone = [
            key for key, mark in marks.items() if mark is PartitionMark.MISSING and key not in cut
        ]
        for key in gone:
            del marks[key]
        return cls(name, cut, known_table, marks)

    def print(self) -> None:
        """The picture, for people."""
        from rich.console import Console

        from arco.cli.flow.partition_grid import draw, lay_out, legend
        from arco.cli.flow.text_format import count_of
        from arco.flow.plan.keys import short_name

        console = Console(highlight=False, soft_wrap=True)
        name = short_name(self.name)
        if not self.cut:
            mark = next(iter(self.marks.values()), None)
            console.print(f"{name} is not partitioned: {'missing' if mark is None else mark.word}.")
            return
        console.print(f"{name}: {count_of(len(self.marks), 'partition')}\n")
        for line in draw(lay_out(self.cut, dict(self.marks))):
            console.print(line)
        console.print()
        console.print(legend(self.marks.values()))

    def print_document(self) -> None:
        """The same for programs."""
        from collections import Counter

        from arco.cli.output import print_document

        table, state = self.table, self.table.state
        print_document(
            {
                "table": self.name,
                "table_id": state.table_id,
                "format": state.format,
                "counts": dict(Counter(mark.status for mark in self.marks.values())),
                "partitions": [
                    {
                        "key": key,
                        "status": mark.status,
                        "detailed_status": mark.name,
                        "material": material,
                        "made_at_ms": None if material is None else table.made_at_ms(key),
                    }
                    for key, mark in sorted(self.marks.items())
                    for material in [table.material(key)]
                ],
            }
        )


def _stale_and_current(
    loaded: "LoadedProject", name: str, state: "PlanningState", now_ms: int, existing: Sequence[str]
) -> tuple[frozenset[str], frozenset[str]]:
    """The partitions whose code or inputs have changed since they were made, and those that are current."""
    from arco.core.clock import utc
    from arco.flow.plan.keys import read_key, short_name
    from arco.flow.plan.planner import STALE, plan

    maker = loaded.project.made_by.get(name)
    if maker is None:
        return frozenset(), frozenset()
    planned = plan(loaded.project, short_name(maker.name), state, utc(now_ms))
    blocked = {read_key(each.key).partition for each in planned.blocked}
    unmade = blocked.union(task.partition for task in planned.tasks)
    unmade.update(read_key(each.key).partition for each in planned.waiting)
    stale = blocked.union(task.partition for task in planned.tasks if task.reason in STALE)
    return frozenset(stale), frozenset(existing).difference(unmade)
