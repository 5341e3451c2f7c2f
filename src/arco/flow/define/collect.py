"""The list that declarations are written to while a project is loaded.

A declaration finds its list in a context variable that is set for the time of loading alone. Without one,
as in a unit test that imports a module by itself, a declaration is checked and then forgotten.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from arco.core.errors import Invalid
from arco.flow.define.problem import Problem, problem_at
from arco.flow.define.where import SourceLine, caller

if TYPE_CHECKING:
    from arco.flow.define.asset import AssetDef
    from arco.flow.define.check import CheckDef
    from arco.flow.define.settings import Settings
    from arco.flow.define.source import SourceDef
    from arco.flow.define.task import TaskDef


@dataclass
class Collection:
    """All that the modules of one project have declared so far."""

    folder: Path
    settings: "Settings"
    assets: list["AssetDef"] = field(default_factory=list)
    sources: list["SourceDef"] = field(default_factory=list)
    checks: list["CheckDef"] = field(default_factory=list)
    tasks: list["TaskDef"] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)  # what may be meant as it is
    unread: list[str] = field(default_factory=list)  # the text of files that could not be loaded
    sql_files: set[Path] = field(default_factory=set)  # those that a module has declared itself
    declared_in: SourceLine | None = None  # set while a file is read that no frame belongs to


_current: ContextVar[Collection | None] = ContextVar("_current", default=None)


@contextmanager
def collecting(collection: Collection) -> Iterator[None]:
    """For this time, declarations go to `collection`."""
    token = _current.set(collection)
    try:
        yield
    finally:
        _current.reset(token)


def current() -> Collection | None:
    """The collection of the project that is being loaded, if one is."""
    return _current.get()


def here() -> SourceLine:
    """The line of the project that declares something at this moment."""
    collection = current()
    if collection is None:
        return caller(None)
    return collection.declared_in or caller(collection.folder)


def complain(message: str) -> None:
    """Note that a declaration is wrong and go on; outside of a project there is nobody to note it."""
    collection = current()
    if collection is None:
        raise Invalid(message)
    collection.problems.append(problem_at(here(), message))
