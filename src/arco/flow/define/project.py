"""A project: everything that the files of a folder declare."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from arco.flow.define.asset import AssetDef, TaskDef
from arco.flow.define.check_rules import CheckDef
from arco.flow.define.code_graph import CodeGraph
from arco.flow.define.declarations import DefinitionProblem
from arco.flow.define.inputs import SourceDef
from arco.flow.define.modules import ProjectModules
from arco.flow.partition import Partitions


@dataclass(frozen=True)
class Project:
    """The declarations in the order of files and lines; `load_problems` were found while loading.

    `warnings` do not prevent planning. `checks` are all checks; those of an asset or source are also in its
    own list.
    """

    name: str
    folder: Path
    assets: tuple[AssetDef, ...]
    sources: tuple[SourceDef, ...]
    checks: tuple[CheckDef, ...]
    tasks: tuple[TaskDef, ...]
    load_problems: tuple[DefinitionProblem, ...]
    warnings: tuple[DefinitionProblem, ...]
    unread: tuple[str, ...]  # the text of files that could not be loaded
    modules: ProjectModules
    pools: dict[str, int] = field(default_factory=dict)  # how many tasks of each run at once

    @cached_property
    def tables(self) -> dict[str, Partitions]:
        """The declared tables and the partitions of each."""
        partitions = {each.name: each.partitions for each in self.sources}
        for maker in self.makers():
            partitions.update({output.table: maker.partitions for output in maker.outputs})
        return partitions

    @cached_property
    def made_by(self) -> dict[str, AssetDef | TaskDef]:
        """The asset or task that fills each table."""
        return {output.table: maker for maker in self.makers() for output in maker.outputs}

    @cached_property
    def code(self) -> CodeGraph:
        """The code behind the functions; cached, since assets share much of it."""
        return CodeGraph(self.modules)

    @cached_property
    def fingerprints(self) -> dict[str, str]:
        """The fingerprint of the code behind each asset and task, by name."""
        from arco.flow.define.fingerprint import code_fingerprint  # imports this module

        return {maker.name: code_fingerprint(maker, self) for maker in self.makers()}

    @cached_property
    def code_parts(self) -> dict[str, dict[str, str]]:
        """The parts of that code by name, so that a change can be described."""
        from arco.flow.define.fingerprint import code_parts

        return {maker.name: code_parts(maker, self) for maker in self.makers()}

    @cached_property
    def checks_fingerprints(self) -> dict[str, str]:
        """The fingerprint of the checks of each asset that has any, by name."""
        from arco.flow.define.fingerprint import checks_fingerprint

        all_fingerprints = ((each.name, checks_fingerprint(each, self)) for each in self.makers())
        return {name: each for name, each in all_fingerprints if each is not None}

    def compared_with(self, maker: AssetDef | TaskDef) -> tuple[str, ...]:
        """The declared tables that its checks read: they have to be made first."""
        if isinstance(maker, TaskDef):  # tables of tasks have no checks
            return ()
        named = dict.fromkeys(table for check in maker.checks for table in check.compares_with)
        own = {output.table for output in maker.outputs}
        return tuple(each for each in named if each in self.tables and each not in own)

    def makers(self) -> Iterator[AssetDef | TaskDef]:
        """The assets and tasks: what fills tables."""
        yield from self.assets
        yield from self.tasks
