"""Loading a project: its settings, its Python files and its queries.

An error in one file is noted and the next one is read: who corrects a project wants to see all at once.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from arco.core.errors import ArcoError, NotFound
from arco.flow.define.collect import Collection, collecting
from arco.flow.define.link import link
from arco.flow.define.modules import Modules
from arco.flow.define.problem import Problem, problem_at
from arco.flow.define.project import Project
from arco.flow.define.settings import FILE, read_settings
from arco.flow.define.sql import load_sql
from arco.flow.define.where import SourceLine, raised_at, relative_file


def load_project(
    folder: Path | str,
    *,
    format: str | None = None,  # noqa: A002 - the word that people look for
) -> Project:
    """All that the project in `folder` declares; what is wrong with it is told by `problems`.

    `format` is that of assets which name none, whatever the project's own settings say.
    """
    root = Path(folder).resolve()
    if not root.is_dir():
        raise NotFound(f"there is no folder {folder}")
    settings, problems = read_settings(root)
    if format is not None:
        settings = replace(settings, format=format)
    collection = Collection(root, settings, problems=problems)
    modules = Modules(root)
    with modules.importing(), collecting(collection):
        for path in _files(collection, ".py"):
            _load_module(modules, collection, path)
        for path in _files(collection, ".sql"):
            if path not in collection.sql_files:
                load_sql(collection, path)
    return link(
        Project(
            name=settings.name,
            folder=root,
            assets=tuple(sorted(collection.assets, key=lambda each: each.where)),
            sources=tuple(sorted(collection.sources, key=lambda each: each.where)),
            checks=tuple(sorted(collection.checks, key=lambda each: each.where)),
            tasks=tuple(sorted(collection.tasks, key=lambda each: each.where)),
            found=tuple(dict.fromkeys(collection.problems)),
            warnings=tuple(collection.warnings),
            unread=tuple(collection.unread),
            modules=modules,
            pools=settings.pools,
        )
    )


def _files(collection: Collection, suffix: str) -> Iterator[Path]:
    """The files with definitions, in the same order everywhere."""
    for said in collection.settings.paths:
        place = (collection.folder / said).resolve()
        if not place.is_relative_to(collection.folder):
            collection.problems.append(Problem(FILE, 0, f"{said!r} leads out of the project"))
        elif place.is_file():
            yield from [place] if place.suffix == suffix else []
        else:
            yield from sorted(place.rglob(f"*{suffix}"))


def _load_module(modules: Modules, collection: Collection, path: Path) -> None:
    file = path.relative_to(collection.folder)
    parts = file.with_suffix("").parts
    if not all(part.isidentifier() for part in parts):
        message = "its path is no name of a module: use letters, digits and '_'"
        _leave_unread(collection, path, Problem(file.as_posix(), 0, message))
        return
    name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    try:
        modules.load(name)
    except (Exception, SystemExit) as failure:
        _leave_unread(collection, path, _failure(failure, collection.folder, file.as_posix()))


def _leave_unread(collection: Collection, path: Path, problem: Problem) -> None:
    collection.unread.append(path.read_text(encoding="utf-8", errors="replace"))
    collection.problems.append(problem)


def _failure(failure: BaseException, folder: Path, file: str) -> Problem:
    """The error of a module, at the innermost line of the project that led to it."""
    kind = "" if isinstance(failure, ArcoError) else f"{type(failure).__name__}: "
    message = f"cannot be loaded: {kind}{failure}"
    if isinstance(failure, SyntaxError) and failure.filename is not None:
        at = relative_file(failure.filename, folder)
        return Problem(at, failure.lineno or 0, f"cannot be loaded: {failure.msg}")
    return problem_at(raised_at(failure, folder) or SourceLine(file, 0), message)
