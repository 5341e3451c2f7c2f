"""All that is wrong with a project, at once, each with its file and line."""

import difflib
from collections import Counter
from collections.abc import Collection as Names
from collections.abc import Iterator

from arco.flow.define.asset import AssetDef
from arco.flow.define.check import References
from arco.flow.define.link import check_names
from arco.flow.define.problem import Problem, problem_at
from arco.flow.define.project import Project
from arco.flow.define.table import InputDef
from arco.flow.define.task import TaskDef
from arco.flow.define.where import SourceLine
from arco.flow.partition.mapping import ShiftMapping


def problems(project: Project, known: Names[str] = ()) -> list[Problem]:
    """What must be corrected before the project can be planned, in the order of files and lines.

    `known` are tables that need no declaration, with three levels: those of the catalog.
    """
    tables = {*project.tables, *known}
    found = [
        *project.found,
        *_duplicates(project),
        *_unknown_inputs(project, tables),
        *_unknown_checked(project, tables),
        *check_names(project.checks),
        *_cycles(project),
        *_queries_of_themselves(project),
    ]
    return sorted(set(found))


def _duplicates(project: Project) -> Iterator[Problem]:
    declared: list[tuple[str, SourceLine, str]] = [
        (output.table, maker.where, "written")
        for maker in project.makers()
        for output in maker.outputs
    ]
    declared += [(each.name, each.where, "declared as a source") for each in project.sources]
    first: dict[str, tuple[SourceLine, str]] = {}
    for table, where, how in sorted(declared, key=lambda each: each[1]):
        if table in first:
            earlier, before = first[table]
            yield problem_at(where, f"{table} is {how} here and {before} at {earlier}")
        first.setdefault(table, (where, how))
    tasks = Counter(each.name for each in project.tasks)
    for task in project.tasks:
        if tasks[task.name] > 1:
            yield problem_at(task.where, f"{tasks[task.name]} tasks are called {task.name!r}")


def _unknown_inputs(project: Project, tables: set[str]) -> Iterator[Problem]:
    for maker in project.makers():
        for each in maker.inputs:
            if each.table not in tables and not _may_be_unread(project, each.table):
                yield problem_at(each.where, _unknown(each, tables))


def _unknown(said: InputDef, tables: set[str]) -> str:
    if said.by_name:
        return (
            f"the parameter {said.parameter!r} is the name of no table: "
            f"write {said.parameter}=table('schema.name')"
        )
    return f"{said.table} is neither an asset nor a source{_near(said.table, tables)}"


def _near(table: str, tables: set[str]) -> str:
    close = difflib.get_close_matches(table, sorted(tables), n=1, cutoff=0.8)
    return f"; is {close[0]} meant?" if close else f": declare source({table!r})"


def _may_be_unread(project: Project, table: str) -> bool:
    """Whether a file that could not be loaded speaks of a table: its own error is the one to correct."""
    short = table.removeprefix("default.")
    return any(short in text for text in project.unread)


def _unknown_checked(project: Project, tables: set[str]) -> Iterator[Problem]:
    for each in project.checks:
        needed = [each.table]
        if isinstance(each.rule, References):
            needed.append(each.rule.table)
        for table in needed:
            if table not in tables and not _may_be_unread(project, table):
                message = f"the check {each.name!r} is of {table}, which is not declared"
                yield problem_at(each.where, message + _near(table, tables))


def _cycles(project: Project) -> Iterator[Problem]:
    """Each ring of tables that wait for each other, be it to read or to check, once."""
    reads = {
        table: sorted(
            {each.table for each in maker.inputs if not _looks_back(maker, each)}
            | {*project.compared_with(maker)}
        )
        for table, maker in sorted(project.made_by.items())
    }
    done: set[str] = set()
    for start in reads:
        for ring in _rings_from(start, reads, done):
            where = project.made_by[ring[0]].where
            if len(ring) == 2:
                message = f"{ring[0]} reads itself: with offset=-1 it reads the partition before"
            else:
                message = f"these tables wait for each other: {' <- '.join(ring)}"
            yield problem_at(where, message)


def _queries_of_themselves(project: Project) -> Iterator[Problem]:
    """Before its first partition an asset has no table, which a query would have to name."""
    for asset in project.assets:
        for each in asset.inputs:
            if asset.sql is not None and _looks_back(asset, each):
                message = f"a query cannot read its own table {each.table}: write it as a function"
                yield problem_at(each.where, message)


def _rings_from(start: str, reads: dict[str, list[str]], done: set[str]) -> Iterator[list[str]]:
    """The rings met by walking from `start` up; no recursion, since chains may be long."""
    path: list[str] = []
    on_path: set[str] = set()
    steps: list[tuple[str, Iterator[str]]] = []

    def enter(table: str) -> None:
        path.append(table)
        on_path.add(table)
        steps.append((table, iter(reads.get(table, ()))))

    if start not in done:
        enter(start)
    while steps:
        table, rest = steps[-1]
        for upstream in rest:
            if upstream in on_path:
                yield [*path[path.index(upstream) :], upstream]
            elif upstream not in done:
                enter(upstream)
                break
        else:
            steps.pop()
            on_path.discard(path.pop())
            done.add(table)


def _looks_back(maker: AssetDef | TaskDef, said: InputDef) -> bool:
    """Whether it reads only earlier partitions of a table that it writes itself."""
    own = any(output.table == said.table for output in maker.outputs)
    return own and isinstance(said.mapping, ShiftMapping) and said.mapping.ahead < 0
