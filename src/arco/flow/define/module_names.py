"""The names that a module binds and that its statements use, from its syntax.

The units are the top-level statements of a module: a function, a class, an assignment, or a compound
statement such as `try`. A name stands for all units that bind it or change its value in place.
"""

import ast
import symtable
from collections.abc import Iterator
from dataclasses import dataclass, field

from arco.flow.define.modules import ModuleCode, absolute


@dataclass(frozen=True)
class CodeUnit:
    """A top-level statement of a module, by its index."""

    module: str
    index: int


@dataclass(frozen=True)
class ImportedName:
    """What an import statement binds to a name: a module, or a name in one."""

    module: str
    name: str | None = None


@dataclass
class Bindings:
    """The names of one module."""

    units: dict[str, list[CodeUnit]] = field(default_factory=dict)
    imports: dict[str, ImportedName] = field(default_factory=dict)
    stars: list[str] = field(default_factory=list)


def bindings_of(code: ModuleCode) -> Bindings:
    """The bindings of a module."""
    bindings = Bindings()
    for index, statement in enumerate(code.tree.body):
        if isinstance(statement, ast.Import | ast.ImportFrom):
            names, stars = imports_in(statement, code)
            bindings.imports.update(names)
            bindings.stars += stars
            continue
        for name in _bound(statement):
            _add(bindings, name, CodeUnit(code.name, index))
    for index, statement in enumerate(code.tree.body):
        for name in _changed(statement):
            if name in bindings.units and not _declares(statement, bindings):
                _add(bindings, name, CodeUnit(code.name, index))
    for units in bindings.units.values():
        units.sort(key=lambda unit: unit.index)
    return bindings


def imports_in(
    statement: ast.Import | ast.ImportFrom, code: ModuleCode
) -> tuple[dict[str, ImportedName], list[str]]:
    """The names that an import statement binds, and the modules of its star imports."""
    if isinstance(statement, ast.Import):
        names = {}
        for alias in statement.names:
            top = alias.name.partition(".")[0]
            names[alias.asname or top] = ImportedName(alias.name if alias.asname else top)
        return names, []
    package = code.name if code.is_package else code.name.rpartition(".")[0]
    module = absolute(statement.module or "", package, statement.level)
    brought = {
        alias.asname or alias.name: ImportedName(module, alias.name)
        for alias in statement.names
        if alias.name != "*"
    }
    return brought, [module for alias in statement.names if alias.name == "*"]


def _add(bindings: Bindings, name: str, unit: CodeUnit) -> None:
    units = bindings.units.setdefault(name, [])
    if unit not in units:
        units.append(unit)


def _bound(statement: ast.stmt) -> Iterator[str]:
    """The names that a statement binds in the module, not those inside its functions."""
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


def _declares(statement: ast.stmt, bindings: Bindings) -> bool:
    """Whether it is a call of Arco such as `source(...)`, which does not change its arguments."""
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
        return False
    imported = bindings.imports.get(root_of(statement.value.func) or "")
    return imported is not None and imported.module.partition(".")[0] == "arco"


def root_of(node: ast.AST) -> str | None:
    """The name that an attribute or subscript begins with."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


@dataclass(frozen=True, order=True)
class NameUse:
    """A name, and the attributes that follow it: `shared.prices.clean` is one use."""

    name: str
    attributes: tuple[str, ...] = ()


def names_used(statement: ast.stmt) -> list[NameUse]:
    """The names of the module that a statement uses, each once, in text order.

    Scopes are resolved by `symtable`, so a parameter hides a function of the same name.
    """
    outside = _outside(statement)
    chains = {chain for chain in _chains(statement) if chain.name in outside}
    return sorted(chains)


def _outside(statement: ast.stmt) -> set[str]:
    text = ast.unparse(ast.fix_missing_locations(ast.Module([statement], [])))
    top = symtable.symtable(text, "<unit>", "exec")
    names = {each.get_name() for each in top.get_symbols() if each.is_referenced()}
    for table in _below(top):
        names |= {each.get_name() for each in table.get_symbols() if each.is_global()}
    return names


def _below(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    for child in table.get_children():
        yield child
        yield from _below(child)


def _chains(statement: ast.stmt) -> Iterator[NameUse]:
    pending: list[ast.AST] = [statement]
    while pending:
        node = pending.pop()
        attributes: list[str] = []
        inner: ast.AST = node
        while isinstance(inner, ast.Attribute):
            attributes.insert(0, inner.attr)
            inner = inner.value
        if isinstance(inner, ast.Name):
            yield NameUse(inner.id, tuple(attributes))
        else:
            pending += ast.iter_child_nodes(node)
