"""A project: everything that the files of one folder declare."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from arco.flow.define.asset import AssetDef
from arco.flow.define.check import CheckDef
from arco.flow.define.code_graph import CodeGraph
from arco.flow.define.modules import Modules
from arco.flow.define.problem import Problem
from arco.flow.define.source import SourceDef
from arco.flow.define.task import TaskDef
from arco.flow.partition import Partitions


@dataclass(frozen=True)
class Project:
    """What was declared, in the order of files and lines; `found` is what was wrong while loading.

    `warnings` are of what may be meant as it is, and so keep nobody from planning.
    `checks` are all checks, each of the table that it names; those of assets and sources are with them too.
    """

    name: str
    folder: Path
    assets: tuple[AssetDef, ...]
    sources: tuple[SourceDef, ...]
    checks: tuple[CheckDef, ...]
    tasks: tuple[TaskDef, ...]
    found: tuple[Problem, ...]
    warnings: tuple[Problem, ...]
    unread: tuple[str, ...]  # the text of files that could not be loaded
    modules: Modules
    pools: dict[str, int] = field(default_factory=dict)  # how many tasks of each run at once

    @cached_property
    def tables(self) -> dict[str, Partitions]:
        """The tables that are declared, and how each is cut."""
        cut = {each.name: each.partitions for each in self.sources}
        for maker in self.makers():
            cut.update({output.table: maker.partitions for output in maker.outputs})
        return cut

    @cached_property
    def made_by(self) -> dict[str, AssetDef | TaskDef]:
        """What fills each table of the project."""
        return {output.table: maker for maker in self.makers() for output in maker.outputs}

    @cached_property
    def code(self) -> CodeGraph:
        """The code behind the functions; kept, since assets share much of it."""
        return CodeGraph(self.modules)

    @cached_property
    def fingerprints(self) -> dict[str, str]:
        """The fingerprint of the code behind each asset and task, by its name; made once for a load."""
        from arco.flow.define.fingerprint import code_fingerprint  # which needs to know projects

        return {maker.name: code_fingerprint(maker, self) for maker in self.makers()}

    @cached_property
    def code_parts(self) -> dict[str, dict[str, str]]:
        """The parts of that code, by name, so that a change of it can be named."""
        from arco.flow.define.fingerprint import code_parts

        return {maker.name: code_parts(maker, self) for maker in self.makers()}

    @cached_property
    def checks_fingerprints(self) -> dict[str, str]:
        """The fingerprint of the checks of each asset that has any, by its name; made once for a load."""
        from arco.flow.define.fingerprint import checks_fingerprint

        found = ((each.name, checks_fingerprint(each, self)) for each in self.makers())
        return {name: fingerprint for name, fingerprint in found if fingerprint is not None}

    def compared_with(self, maker: AssetDef | TaskDef) -> tuple[str, ...]:
        """The declared tables that only its checks look into: they have to be there first."""
        if isinstance(maker, TaskDef):  # whose tables nobody checks
            return ()
        named = dict.fromkeys(table for check in maker.checks for table in check.compares_with)
        own = {output.table for output in maker.outputs}
        return tuple(each for each in named if each in self.tables and each not in own)

    def makers(self) -> Iterator[AssetDef | TaskDef]:
        """All that fills tables."""
        yield from self.assets
        yield from self.tasks
