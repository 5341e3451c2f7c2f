"""Joining what files have declared apart from each other: names of parameters, mappings, checks."""

from collections.abc import Iterable
from dataclasses import replace

from arco.core.errors import Invalid
from arco.flow.define.asset import AssetDef
from arco.flow.define.check import CheckDef
from arco.flow.define.name import last_part
from arco.flow.define.option import UNPARTITIONED
from arco.flow.define.problem import Problem, problem_at
from arco.flow.define.project import Project
from arco.flow.define.table import InputDef
from arco.flow.define.task import TaskDef
from arco.flow.partition import Mapping, Partitions, default_mapping


def link(project: Project) -> Project:
    """The project with each input's table and mapping found, and each check with its table."""
    linking = _Linking(project)
    assets = tuple(linking.asset(each) for each in project.assets)
    tasks = tuple(linking.task(each) for each in project.tasks)
    sources = tuple(
        replace(each, checks=(*each.checks, *linking.checks_of({each.name})))
        for each in project.sources
    )
    checks = [check for asset in assets for check in asset.checks]
    checks += [check for source in sources for check in source.checks]
    strays = [each for each in project.checks if each.table not in project.tables]
    strays += [each for task in tasks for each in linking.checks_of(_tables(task))]
    return replace(
        project,
        assets=assets,
        tasks=tasks,
        sources=sources,
        checks=(*checks, *strays),
        found=(*project.found, *linking.problems),
    )


class _Linking:
    def __init__(self, project: Project) -> None:
        self.problems: list[Problem] = []
        self._project = project
        self._by_name = _by_name(project)
        self._by_function = _by_function(project)

    def asset(self, asset: AssetDef) -> AssetDef:
        checks = (*asset.checks, *self.checks_of(_tables(asset)))
        inputs = tuple(self._input(each, asset) for each in asset.inputs)
        return replace(asset, checks=checks, inputs=inputs)

    def task(self, task: TaskDef) -> TaskDef:
        return replace(task, inputs=tuple(self._input(each, task) for each in task.inputs))

    def checks_of(self, tables: set[str]) -> list[CheckDef]:
        return [each for each in self._project.checks if each.table in tables]

    def _input(self, said: InputDef, maker: AssetDef | TaskDef) -> InputDef:
        if said.by_name:
            said = self._named(said, _tables(maker))
        reads = self._project.tables.get(said.table, UNPARTITIONED)
        try:
            return replace(said, mapping=_mapping(said.mapping, maker.partitions, reads))
        except Invalid as wrong:
            message = f"{said.parameter!r} cannot read {said.table} so: {wrong}"
            self.problems.append(problem_at(said.where, message))
            return replace(said, mapping=None)

    def _named(self, said: InputDef, own: set[str]) -> InputDef:
        """The table of the function with the parameter's name, or else a table of that name.

        One that the asset writes itself is meant only if there is no other: `silver.orders` with a
        parameter `orders` is made from `raw.orders`.
        """
        named = self._by_name.get(said.parameter, ())
        found = (
            _others(self._by_function.get(said.parameter, ()), own) or _others(named, own) or named
        )
        if len(found) == 1:
            return replace(said, table=found[0])
        if found:
            message = (
                f"the parameter {said.parameter!r} may stand for {' or '.join(found)}: "
                f"write {said.parameter}=table({found[0]!r})"
            )
            self.problems.append(problem_at(said.where, message))
            return replace(said, table=found[0])
        return said


def _by_name(project: Project) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for table in sorted(project.tables):
        found[last_part(table)] = (*found.get(last_part(table), ()), table)
    return found


def _others(tables: tuple[str, ...], own: set[str]) -> tuple[str, ...]:
    return tuple(each for each in tables if each not in own)


def _by_function(project: Project) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for asset in project.assets:
        if asset.function is not None and len(asset.outputs) == 1:
            name = getattr(asset.function, "__name__", "")
            found[name] = (*found.get(name, ()), asset.name)
    return found


def _mapping(asked: Mapping | None, of: Partitions, reads: Partitions) -> Mapping:
    if asked is None:
        return default_mapping(of, reads)
    asked.check(of, reads)
    return asked


def _tables(maker: AssetDef | TaskDef) -> set[str]:
    return {output.table for output in maker.outputs}


def check_names(checks: Iterable[CheckDef]) -> list[Problem]:
    """Checks of one table that have the same name: their results could not be told apart."""
    seen: set[tuple[str, str]] = set()
    problems: list[Problem] = []
    for each in checks:
        if (each.table, each.name) in seen:
            message = f"{each.table} has two checks called {each.name!r}: give one a name=..."
            problems.append(problem_at(each.where, message))
        seen.add((each.table, each.name))
    return problems
