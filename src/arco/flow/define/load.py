"""Loads a project: its settings, its Python files and its queries, and links what they declare.

An error in one file is recorded and loading continues, so that the user sees all problems at once.
"""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from arco.core.errors import ArcoError, Invalid, NotFound
from arco.flow.define.asset import AssetDef, TaskDef
from arco.flow.define.check_rules import CheckDef
from arco.flow.define.declarations import (
    Declarations,
    DefinitionProblem,
    SourceLine,
    collect_into,
    problem_at,
    raised_at,
    relative_file,
)
from arco.flow.define.inputs import InputDef
from arco.flow.define.modules import ProjectModules
from arco.flow.define.options import SETTINGS_FILE, UNPARTITIONED
from arco.flow.define.project import Project
from arco.flow.define.settings import read_settings
from arco.flow.define.sql import load_sql
from arco.flow.partition import Mapping, Partitions, default_mapping
from arco.flow.table_name import base_name


def load_project(
    folder: Path | str,
    *,
    format: str | None = None,  # noqa: A002 - the word that people look for
) -> Project:
    """Everything that the project in `folder` declares; `find_problems` lists what is wrong with it.

    `format` is the format of assets that declare none; it overrides the project's settings.
    """
    root = Path(folder).resolve()
    if not root.is_dir():
        raise NotFound(f"there is no folder {folder}")
    settings, problems = read_settings(root)
    if format is not None:
        settings = replace(settings, format=format)
    declarations = Declarations(root, settings, problems=problems)
    modules = ProjectModules(root)
    with modules.importing(), collect_into(declarations):
        for path in _files(declarations, ".py"):
            _load_module(modules, declarations, path)
        for path in _files(declarations, ".sql"):
            if path not in declarations.sql_files:
                load_sql(declarations, path)
    return link(
        Project(
            name=settings.name,
            folder=root,
            assets=tuple(sorted(declarations.assets, key=lambda each: each.where)),
            sources=tuple(sorted(declarations.sources, key=lambda each: each.where)),
            checks=tuple(sorted(declarations.checks, key=lambda each: each.where)),
            tasks=tuple(sorted(declarations.tasks, key=lambda each: each.where)),
            load_problems=tuple(dict.fromkeys(declarations.problems)),
            warnings=tuple(declarations.warnings),
            unread=tuple(declarations.unread),
            modules=modules,
            pools=settings.pools,
        )
    )


def _files(declarations: Declarations, suffix: str) -> Iterator[Path]:
    """The files with definitions, in an order that is the same on every machine."""
    for declared in declarations.settings.paths:
        place = (declarations.folder / declared).resolve()
        if not place.is_relative_to(declarations.folder):
            declarations.problems.append(
                DefinitionProblem(SETTINGS_FILE, 0, f"{declared!r} leads out of the project")
            )
        elif place.is_file():
            yield from [place] if place.suffix == suffix else []
        else:
            yield from sorted(place.rglob(f"*{suffix}"))


def _load_module(modules: ProjectModules, declarations: Declarations, path: Path) -> None:
    file = path.relative_to(declarations.folder)
    parts = file.with_suffix("").parts
    if not all(part.isidentifier() for part in parts):
        message = "its path is not a module name: use letters, digits and '_'"
        _record_unread(declarations, path, DefinitionProblem(file.as_posix(), 0, message))
        return
    name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    try:
        modules.load(name)
    except (Exception, SystemExit) as failure:
        _record_unread(declarations, path, _failure(failure, declarations.folder, file.as_posix()))


def _record_unread(declarations: Declarations, path: Path, problem: DefinitionProblem) -> None:
    declarations.unread.append(path.read_text(encoding="utf-8", errors="replace"))
    declarations.problems.append(problem)


def _failure(failure: BaseException, folder: Path, file: str) -> DefinitionProblem:
    """The problem for the error of a module, at the innermost line of the project that led to it."""
    kind = "" if isinstance(failure, ArcoError) else f"{type(failure).__name__}: "
    message = f"cannot be loaded: {kind}{failure}"
    if isinstance(failure, SyntaxError) and failure.filename is not None:
        at = relative_file(failure.filename, folder)
        return DefinitionProblem(at, failure.lineno or 0, f"cannot be loaded: {failure.msg}")
    return problem_at(raised_at(failure, folder) or SourceLine(file, 0), message)


def link(project: Project) -> Project:
    """The project with the table and mapping of each input, and the checks of each table."""
    linker = _Linker(project)
    assets = tuple(linker.asset(each) for each in project.assets)
    tasks = tuple(linker.task(each) for each in project.tasks)
    sources = tuple(
        replace(each, checks=(*each.checks, *linker.parse_checks({each.name})))
        for each in project.sources
    )
    checks = [check for asset in assets for check in asset.checks]
    checks += [check for source in sources for check in source.checks]
    strays = [each for each in project.checks if each.table not in project.tables]
    strays += [each for task in tasks for each in linker.parse_checks(_tables(task))]
    return replace(
        project,
        assets=assets,
        tasks=tasks,
        sources=sources,
        checks=(*checks, *strays),
        load_problems=(*project.load_problems, *linker.problems),
    )


class _Linker:
    def __init__(self, project: Project) -> None:
        self.problems: list[DefinitionProblem] = []
        self._project = project
        self._by_name = _by_name(project)
        self._by_function = _by_function(project)

    def asset(self, asset: AssetDef) -> AssetDef:
        checks = (*asset.checks, *self.parse_checks(_tables(asset)))
        inputs = tuple(self._input(each, asset) for each in asset.inputs)
        return replace(asset, checks=checks, inputs=inputs)

    def task(self, task: TaskDef) -> TaskDef:
        return replace(task, inputs=tuple(self._input(each, task) for each in task.inputs))

    def parse_checks(self, tables: set[str]) -> list[CheckDef]:
        return [each for each in self._project.checks if each.table in tables]

    def _input(self, declared: InputDef, maker: AssetDef | TaskDef) -> InputDef:
        if declared.by_name:
            declared = self._named(declared, _tables(maker))
        reads = self._project.tables.get(declared.table, UNPARTITIONED)
        try:
            return replace(declared, mapping=_mapping(declared.mapping, maker.partitions, reads))
        except Invalid as wrong:
            message = f"{declared.parameter!r} cannot read {declared.table} so: {wrong}"
            self.problems.append(problem_at(declared.where, message))
            return replace(declared, mapping=None)

    def _named(self, declared: InputDef, own: set[str]) -> InputDef:
        """The input with the table of the function with the parameter's name, or else of that name.

        A table that the asset writes itself matches only if there is no other: `silver.orders` with a
        parameter `orders` reads `raw.orders`.
        """
        named = self._by_name.get(declared.parameter, ())
        tables = (
            _others(self._by_function.get(declared.parameter, ()), own)
            or _others(named, own)
            or named
        )
        if len(tables) == 1:
            return replace(declared, table=tables[0])
        if tables:
            message = (
                f"the parameter {declared.parameter!r} may stand for {' or '.join(tables)}: "
                f"write {declared.parameter}=table({tables[0]!r})"
            )
            self.problems.append(problem_at(declared.where, message))
            return replace(declared, table=tables[0])
        return declared


def _by_name(project: Project) -> dict[str, tuple[str, ...]]:
    tables: dict[str, tuple[str, ...]] = {}
    for table in sorted(project.tables):
        tables[base_name(table)] = (*tables.get(base_name(table), ()), table)
    return tables


def _others(tables: tuple[str, ...], own: set[str]) -> tuple[str, ...]:
    return tuple(each for each in tables if each not in own)


def _by_function(project: Project) -> dict[str, tuple[str, ...]]:
    tables: dict[str, tuple[str, ...]] = {}
    for asset in project.assets:
        if asset.function is not None and len(asset.outputs) == 1:
            name = getattr(asset.function, "__name__", "")
            tables[name] = (*tables.get(name, ()), asset.name)
    return tables


def _mapping(declared: Mapping | None, of: Partitions, reads: Partitions) -> Mapping:
    if declared is None:
        return default_mapping(of, reads)
    declared.check(of, reads)
    return declared


def _tables(maker: AssetDef | TaskDef) -> set[str]:
    return {output.table for output in maker.outputs}


_DEFINING = (".py", ".sql", ".toml")
_NOT_CODE = ("__pycache__", "node_modules", "site-packages", "spark-warehouse")
_ENVIRONMENT = "pyvenv.cfg"

FileStamps = dict[str, tuple[int, int, int]]
"""The modification time, the size and the inode of each file."""


def file_stamps(folder: Path) -> FileStamps:
    """The stamps of the files that define a project; they differ if any file has changed."""
    stamps: FileStamps = {}
    for path in _walk(folder, _DEFINING):
        try:
            status = path.stat()
        except FileNotFoundError:  # removed or being replaced
            continue
        stamps[path.as_posix()] = status.st_mtime_ns, status.st_size, status.st_ino
    return stamps


def python_files(folder: Path) -> dict[str, bytes]:
    """The Python files of a project by relative path, without virtual environments in its folder."""
    return {
        each.relative_to(folder).as_posix(): each.read_bytes()
        for each in sorted(_walk(folder, (".py",)))
    }


def _walk(project: Path, suffixes: tuple[str, ...]) -> Iterator[Path]:
    for folder, below, files in os.walk(project):
        below[:] = [
            each
            for each in below
            if not each.startswith(".")
            and each not in _NOT_CODE
            and not Path(folder, each, _ENVIRONMENT).exists()
        ]
        yield from (Path(folder, each) for each in files if each.endswith(suffixes))
