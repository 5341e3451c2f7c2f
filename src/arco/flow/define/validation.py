"""Validates a loaded project: finds all problems at once, each with its file and line."""

import difflib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator

from arco.flow.define.asset import AssetDef, TaskDef
from arco.flow.define.check_rules import CheckDef, References
from arco.flow.define.declarations import DefinitionProblem, SourceLine, problem_at
from arco.flow.define.inputs import InputDef
from arco.flow.define.project import Project
from arco.flow.define.sql import query_problem
from arco.flow.define.sql_query import query_errors
from arco.flow.partition.mapping import ShiftMapping


def find_problems(
    project: Project, catalog_tables: Collection[str] = ()
) -> list[DefinitionProblem]:
    """What must be corrected before the project can be planned, in the order of files and lines.

    `catalog_tables` are the full names of tables that need no declaration.
    """
    tables = {*project.tables, *catalog_tables}
    problems = [
        *project.load_problems,
        *_duplicates(project),
        *_unknown_inputs(project, tables),
        *_unknown_checked(project, tables),
        *_equal_check_names(project.checks),
        *_cycles(project),
        *_self_reading_queries(project),
    ]
    return sorted(set(problems))


def _duplicates(project: Project) -> Iterator[DefinitionProblem]:
    declared: list[tuple[str, SourceLine, str]] = [
        (output.table, maker.where, "written")
        for maker in project.makers()
        for output in maker.outputs
    ]
    declared += [(each.name, each.where, "declared as a source") for each in project.sources]
    first: dict[str, tuple[SourceLine, str]] = {}
    for table, where, kind in sorted(declared, key=lambda each: each[1]):
        if table in first:
            earlier, before = first[table]
            yield problem_at(where, f"{table} is {kind} here and {before} at {earlier}")
        first.setdefault(table, (where, kind))
    tasks = Counter(each.name for each in project.tasks)
    for task in project.tasks:
        if tasks[task.name] > 1:
            yield problem_at(task.where, f"{tasks[task.name]} tasks are called {task.name!r}")


def _unknown_inputs(project: Project, tables: set[str]) -> Iterator[DefinitionProblem]:
    for maker in project.makers():
        for declared in maker.inputs:
            if declared.table not in tables and not _may_be_unread(project, declared.table):
                yield problem_at(declared.where, _unknown(declared, tables))


def _unknown(declared: InputDef, tables: set[str]) -> str:
    if declared.by_name:
        return (
            f"the parameter {declared.parameter!r} is the name of no table: "
            f"write {declared.parameter}=table('schema.name')"
        )
    return f"{declared.table} is neither an asset nor a source{_suggest(declared.table, tables)}"


def _suggest(table: str, tables: set[str]) -> str:
    close = difflib.get_close_matches(table, sorted(tables), n=1, cutoff=0.8)
    return f"; is {close[0]} meant?" if close else f": declare source({table!r})"


def _may_be_unread(project: Project, table: str) -> bool:
    """Whether a file that could not be loaded mentions a table: the file's own error comes first."""
    short = table.removeprefix("default.")
    return any(short in text for text in project.unread)


def _unknown_checked(project: Project, tables: set[str]) -> Iterator[DefinitionProblem]:
    for check in project.checks:
        needed = [check.table]
        if isinstance(check.rule, References):
            needed.append(check.rule.table)
        for table in needed:
            if table not in tables and not _may_be_unread(project, table):
                message = f"the check {check.name!r} is of {table}, which is not declared"
                yield problem_at(check.where, message + _suggest(table, tables))


def _cycles(project: Project) -> Iterator[DefinitionProblem]:
    """Each cycle of tables that wait for each other, by inputs or checks, once."""
    reads = {
        table: sorted(
            {each.table for each in maker.inputs if not _looks_back(maker, each)}
            | {*project.compared_with(maker)}
        )
        for table, maker in sorted(project.made_by.items())
    }
    done: set[str] = set()
    for start in reads:
        for cycle in _cycles_from(start, reads, done):
            where = project.made_by[cycle[0]].where
            if len(cycle) == 2:
                message = f"{cycle[0]} reads itself: with offset=-1 it reads the partition before"
            else:
                message = f"these tables wait for each other: {' <- '.join(cycle)}"
            yield problem_at(where, message)


def _self_reading_queries(project: Project) -> Iterator[DefinitionProblem]:
    """Queries that read their own table, which does not exist before the first partition."""
    for asset in project.assets:
        for declared in asset.inputs:
            if asset.sql is not None and _looks_back(asset, declared):
                message = (
                    f"a query cannot read its own table {declared.table}: write it as a function"
                )
                yield problem_at(declared.where, message)


def _cycles_from(start: str, reads: dict[str, list[str]], done: set[str]) -> Iterator[list[str]]:
    """The cycles upstream of `start`; without recursion, since chains may be long."""
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


def _looks_back(maker: AssetDef | TaskDef, declared: InputDef) -> bool:
    """Whether an input is earlier partitions of a table that the maker writes itself."""
    own = any(output.table == declared.table for output in maker.outputs)
    return own and isinstance(declared.mapping, ShiftMapping) and declared.mapping.ahead < 0


def sql_problems(project: Project) -> list[DefinitionProblem]:
    """The syntax errors of the queries of all assets."""
    return sorted(
        {
            query_problem(asset.where, asset.sql_file, line, message)
            for asset in project.assets
            if asset.sql
            for line, message in query_errors(asset.sql)
        }
    )


def _equal_check_names(checks: Iterable[CheckDef]) -> Iterator[DefinitionProblem]:
    """Checks of one table with the same name: their results could not be distinguished."""
    seen: set[tuple[str, str]] = set()
    for check in checks:
        if (check.table, check.name) in seen:
            message = f"{check.table} has two checks called {check.name!r}: give one a name=..."
            yield problem_at(check.where, message)
        seen.add((check.table, check.name))
