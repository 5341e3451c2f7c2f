"""The Spark executor of a project, set up for the Arco that it works with."""

from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from arco.cli.flow.connection import ConnectedArco
from arco.cli.flow.flags import SparkFlags, pairs
from arco.cli.flow.project import LoadedProject
from arco.client.task_catalog import HttpTaskCatalog
from arco.core.errors import Invalid
from arco.core.runtime import Runtime
from arco.flow.coordinator.messages import AttemptOutcome, LeasedTask
from arco.flow.define import AssetDef, CheckDef, Project
from arco.flow.define.check_rules import QueryRule, References
from arco.flow.define.sql_query import find_tables
from arco.flow.plan.plan import Plan
from arco.flow.table_name import qualified_name
from arco.flow.worker.ports import AttemptContext

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from arco.compactor.spark.session import Session
    from arco.flow.spark.engine import SparkRequirements
    from arco.flow.spark.executor import SparkExecutor

_ICEBERG = "iceberg"


class ProjectExecutor:
    """The executor of a project; implements `arco.flow.worker.ports.Executor`."""

    def __init__(
        self,
        executor: "SparkExecutor",
        catalog: HttpTaskCatalog,
        code: "_Code",
    ) -> None:
        self._executor = executor
        self._catalog = catalog
        self._code = code

    def warm_up(
        self, plan: Plan | None = None, print_line: "Callable[[str], None] | None" = None
    ) -> None:
        """Start Spark if the plan needs it, so that a missing jar is one error before any task begins.

        `print_line` announces it, as it takes seconds, and longer if a jar has to be downloaded.
        """
        from arco.flow.spark.user_code import needs_spark
        from arco.server.compaction import silent_jvm

        planned = None if plan is None else {task.maker for task in plan.tasks}
        wanted = [
            each for each in self._code.project.makers() if planned is None or each.name in planned
        ]
        if any(map(needs_spark, wanted)):
            if print_line is not None:
                print_line("Starting Spark ...")
            with silent_jvm():
                self._executor.warm_up()

    def execute(self, task: LeasedTask, watch: AttemptContext) -> AttemptOutcome:
        return self._executor.execute(task, watch)

    def interrupt(self, attempt_id: str) -> None:
        self._executor.interrupt(attempt_id)

    def switch(self, project: Project, modules: "Mapping[str, bytes]") -> None:
        """Use the project as it was loaded again; no task runs. Spark is opened again if it has to be."""
        executor, before = self._executor, self._code.needs
        reopen = executor.is_open and spark_needs(project, self._catalog) != before
        self._code.project, self._code.modules = project, modules
        executor.switch(project, modules, reopen=reopen)

    def lend(self) -> "Session | None":
        """A session of the Spark that is open; None if none is."""
        return self._executor.lend()

    def close(self) -> None:
        self._executor.close()
        self._catalog.close()


@dataclass
class _Code:
    """The project that is used now, and what Spark was opened with for it."""

    project: Project
    modules: "Mapping[str, bytes]"
    needs: "SparkRequirements | None" = None

    def needs_now(self, catalog: HttpTaskCatalog) -> "SparkRequirements":
        self.needs = spark_needs(self.project, catalog)
        return self.needs


def make_executor(
    loaded: LoadedProject,
    modules: "Mapping[str, bytes]",
    arco: ConnectedArco,
    spark: SparkFlags,
    runtime: Runtime,
) -> ProjectExecutor:
    """The executor of a project, whose modules were read when it was loaded; Spark is not started yet."""
    from arco.flow.spark.engine import SparkOpener
    from arco.flow.spark.executor import SparkExecutor
    from arco.flow.spark.session import MEMORY

    catalog, code = (
        HttpTaskCatalog(arco.url, runtime, token=arco.token),
        _Code(loaded.project, modules),
    )
    opening = SparkOpener(
        arco.url,
        arco.token,
        partial(code.needs_now, catalog),
        master=spark.master,
        settings=pairs("--conf", spark.conf),
        memory=spark.memory or MEMORY,
        modules=lambda: code.modules,
    )
    executor = SparkExecutor(loaded.project, catalog, opening, runtime.clock)
    return ProjectExecutor(executor, catalog, code)


def spark_needs(project: Project, catalog: HttpTaskCatalog) -> "SparkRequirements":
    """The catalogs that have Iceberg tables which the project reads or writes, and where tables lie.

    What its checks look into is read too. Of a table that something else fills, only the catalog knows
    the format.
    """
    from arco.flow.spark.engine import SparkRequirements

    made = {
        output.table: each.format == _ICEBERG if isinstance(each, AssetDef) else True
        for each in project.makers()
        for output in each.outputs
    }
    read = {each.table for maker in project.makers() for each in maker.inputs}
    read.update(each for asset in project.assets for check in asset.checks for each in _read(check))
    tables = {table for table, is_iceberg in made.items() if is_iceberg}
    locations: set[str] = set()
    for table in read - made.keys():
        existing = catalog.find(table)
        if existing is not None and existing.format.lower() == _ICEBERG:
            tables.add(table)
            locations.add(existing.location)
    catalogs = frozenset(table.partition(".")[0] for table in tables)
    return SparkRequirements(catalogs, catalog.store(), tuple(sorted(locations)))


def _read(check: CheckDef) -> "Iterator[str]":
    """The tables that a check looks into, perhaps its own among them."""
    match check.rule:
        case References(table=table):
            yield table
        case QueryRule(query):
            for named in find_tables(query):
                with suppress(Invalid):  # Spark reports what is wrong with it
                    yield qualified_name(named.name)
