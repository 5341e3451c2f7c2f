"""What the names of a module stand for, found in its syntax alone.

The units are the statements at the top of a module: a function, a class, an assignment, or a compound one
such as `try` as a whole. A name stands for all units that bind it or change what it holds.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from arco.flow.define.modules import ModuleCode, absolute


@dataclass(frozen=True)
class Unit:
    """A statement at the top of a module, by its place."""

    module: str
    index: int


@dataclass(frozen=True)
class Imported:
    """A name that an import brings: a module, or something in one."""

    module: str
    name: str | None = None


@dataclass
class Bindings:
    """The names of one module."""

    units: dict[str, list[Unit]] = field(default_factory=dict)
    imports: dict[str, Imported] = field(default_factory=dict)
    stars: list[str] = field(default_factory=list)


def bindings_of(code: ModuleCode) -> Bindings:
    """What the names of a module stand for."""
    found = Bindings()
    for index, statement in enumerate(code.tree.body):
        if isinstance(statement, ast.Import | ast.ImportFrom):
            names, stars = imports_in(statement, code)
            found.imports.update(names)
            found.stars += stars
            continue
        for name in _bound(statement):
            _add(found, name, Unit(code.name, index))
    for index, statement in enumerate(code.tree.body):
        for name in _changed(statement):
            if name in found.units and not _declares(statement, found):
                _add(found, name, Unit(code.name, index))
    for units in found.units.values():
        units.sort(key=lambda unit: unit.index)
    return found


def imports_in(
    statement: ast.Import | ast.ImportFrom, code: ModuleCode
) -> tuple[dict[str, Imported], list[str]]:
    """The names that an import statement binds, and the modules of which it takes everything."""
    if isinstance(statement, ast.Import):
        names = {}
        for alias in statement.names:
            top = alias.name.partition(".")[0]
            names[alias.asname or top] = Imported(alias.name if alias.asname else top)
        return names, []
    package = code.name if code.is_package else code.name.rpartition(".")[0]
    module = absolute(statement.module or "", package, statement.level)
    brought = {
        alias.asname or alias.name: Imported(module, alias.name)
        for alias in statement.names
        if alias.name != "*"
    }
    return brought, [module for alias in statement.names if alias.name == "*"]


def _add(found: Bindings, name: str, unit: Unit) -> None:
    units = found.units.setdefault(name, [])
    if unit not in units:
        units.append(unit)


def _bound(statement: ast.stmt) -> Iterator[str]:
    """The names that a statement gives to the module, not those inside its functions."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield statement.name
        return
    pending: list[ast.AST] = [statement]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del):
            yield node.id
        elif isinstance(node, ast.alias):
            yield node.asname or node.name.partition(".")[0]
        elif isinstance(node, ast.ExceptHandler) and node.name:
            yield node.name
            pending += ast.iter_child_nodes(node)
        elif not isinstance(node, ast.Lambda):
            pending += ast.iter_child_nodes(node)


def _changed(statement: ast.stmt) -> Iterator[str]:
    """The names whose values a statement may change in place: `X["a"] = 1`, `X.append(2)`, `fill(X)`."""
    match statement:
        case ast.Assign(targets=targets):
            yield from (root for target in targets if (root := root_of(target)))
        case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
            if root := root_of(target):
                yield root
        case ast.Expr(value=ast.Call()):
            yield from (node.id for node in ast.walk(statement) if isinstance(node, ast.Name))


def _declares(statement: ast.stmt, found: Bindings) -> bool:
    """Whether it is a call such as `source(...)`, which changes nothing that it is given."""
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
        return False
    imported = found.imports.get(root_of(statement.value.func) or "")
    return imported is not None and imported.module.partition(".")[0] == "arco"


def root_of(node: ast.AST) -> str | None:
    """The name that an attribute or subscript begins with."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None
