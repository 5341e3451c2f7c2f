"""The code behind a function: the statements of its project that it reaches, in a canonical form.

The graph is written as a list in breadth-first order, each statement with what its names stand for. It
holds no module names and no positions in files, so moving code changes nothing. Comments, docstrings and
differences between Python versions are left out.
"""

import ast
import copy
import hashlib
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeGuard

from arco.core import json
from arco.flow.define.module_names import (
    Bindings,
    CodeUnit,
    ImportedName,
    NameUse,
    bindings_of,
    imports_in,
    names_used,
)
from arco.flow.define.modules import ModuleCode, ProjectModules

Canonical = str | list["Canonical"]
"""Nested lists of texts: the form of trees and values that is hashed."""


def canonical_tree(node: ast.AST) -> Canonical:
    """A tree as nested lists; empty fields are left out, since newer Python versions have more."""
    written: list[Canonical] = [type(node).__name__]
    for name, value in ast.iter_fields(node):
        if name in ("type_comment", "kind", "ctx") or value is None or value == []:
            if isinstance(node, ast.Constant) and name == "value":
                written.append(["value", "None"])
            continue
        written.append([name, _field(value)])
    return written


def _field(value: object) -> Canonical:
    if isinstance(value, ast.AST):
        return canonical_tree(value)
    if isinstance(value, list):
        statements = [each for each in value if not is_docstring(each)]
        return [_field(each) for each in statements]
    return f"{type(value).__name__}:{value!r}"


def is_docstring(node: object) -> bool:
    """Whether a statement is a text only: a docstring, or one used as a comment."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


_DECLARING = frozenset({"asset", "check", "task"})
_SHORT_CHARS = 12
NONE: frozenset[str] = frozenset()


@dataclass(frozen=True)
class _Outside:
    """A name of a library, in full."""

    name: str


Target = CodeUnit | _Outside


@dataclass(frozen=True)
class _Look:
    """The hash of a statement, and what the names in it stand for."""

    written: str
    targets: tuple[tuple[NameUse, list[Target]], ...]


class CodeGraph:
    """The code of one project, analyzed as needed."""

    def __init__(self, modules: ProjectModules) -> None:
        self._modules = modules
        self._bindings: dict[str, Bindings] = {}
        self._looks: dict[CodeUnit, _Look] = {}
        self._statements: dict[CodeUnit, ast.stmt] = {}

    def unit_of(self, function: Callable[..., object]) -> tuple[CodeUnit, str] | None:
        """The statement that contains a function, and its qualified name; None for other projects' code."""
        code = self._modules.code(function.__module__)
        line = getattr(getattr(function, "__code__", None), "co_firstlineno", None)
        if code is None or line is None:
            return None
        for index, statement in enumerate(code.tree.body):
            if first_line(statement) <= line <= (statement.end_lineno or 0):
                return CodeUnit(code.name, index), function.__qualname__
        return None

    def reached(self, roots: list[CodeUnit], ready: dict[CodeUnit, ast.stmt]) -> list[Canonical]:
        """Everything that is reached from some units; `ready` replaces the statements of some units."""
        numbers: dict[CodeUnit, int] = {}

        def number(unit: CodeUnit) -> int:
            return numbers.setdefault(unit, len(numbers))

        written: list[Canonical] = [[str(number(root)) for root in roots]]
        for look in self._walk(roots, ready).values():
            names: list[Canonical] = []
            for used, targets in look.targets:
                shown = [
                    str(number(each)) if isinstance(each, CodeUnit) else f"lib:{each.name}"
                    for each in targets
                ]
                names.append([".".join((used.name, *used.attributes)), list(shown)])
            written.append([look.written, names])
        return written

    def parts(self, roots: list[CodeUnit], ready: dict[CodeUnit, ast.stmt]) -> dict[str, str]:
        """The same units by name, each with a short hash of its statement."""
        looks = self._walk(roots, ready)
        names = {unit: part_name(self.statement(unit), unit.module) for unit in looks}
        counts = Counter(names.values())
        hashes_by_name: dict[str, list[str]] = {}
        for unit, look in looks.items():
            name = names[unit]
            shown = name if counts[name] == 1 else f"{name} of {unit.module}"
            hashes_by_name.setdefault(shown, []).append(look.written + _libraries(look))
        return {name: _digest_of(hashes)[:_SHORT_CHARS] for name, hashes in hashes_by_name.items()}

    def _walk(
        self, roots: list[CodeUnit], ready: dict[CodeUnit, ast.stmt]
    ) -> dict[CodeUnit, _Look]:
        """All units that are reached from some, in breadth-first order."""
        looks: dict[CodeUnit, _Look] = {}
        pending = deque(roots)
        while pending:
            unit = pending.popleft()
            if unit not in looks:
                looks[unit] = look = self._look(unit, ready.get(unit))
                targets = (each for _, some in look.targets for each in some)
                pending.extend(each for each in targets if isinstance(each, CodeUnit))
        return looks

    def _look(self, unit: CodeUnit, ready: ast.stmt | None) -> _Look:
        """The hash and the uses of a unit; cached, since many assets reach the same ones."""
        if ready is not None:
            return _Look(_digest(ready), tuple(self._targets(unit, ready)))
        if unit not in self._looks:
            statement = self.statement(unit)
            self._looks[unit] = _Look(_digest(statement), tuple(self._targets(unit, statement)))
        return self._looks[unit]

    def statement(self, unit: CodeUnit) -> ast.stmt:
        """The statement of a unit without the decorators of Arco: options count by value."""
        if unit not in self._statements:
            statement = self._code(unit.module).tree.body[unit.index]
            if any(map(_is_decorated, ast.walk(statement))):
                statement = copy.deepcopy(statement)  # the tree of the module stays as it is
            for node in filter(_is_decorated, ast.walk(statement)):
                kept = [
                    each for each in node.decorator_list if not self._declares(each, unit.module)
                ]
                node.decorator_list = kept
            self._statements[unit] = statement
        return self._statements[unit]

    def _declares(self, decorator: ast.expr, module: str) -> bool:
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        chain = _chain(called)
        if chain is None:
            return False
        targets = self._resolve(module, chain)
        return any(
            isinstance(each, _Outside)
            and each.name.split(".")[0] == "arco"
            and each.name.split(".")[-1] in _DECLARING
            for each in targets
        )

    def _targets(
        self, unit: CodeUnit, statement: ast.stmt
    ) -> Iterator[tuple[NameUse, list[Target]]]:
        """What each name that a statement uses stands for, except for builtins."""
        for used in names_used(statement):
            targets = [each for each in self._resolve(unit.module, used) if each != unit]
            if targets:
                yield used, targets
        yield from self._inner_imports(unit, statement)

    def _inner_imports(
        self, unit: CodeUnit, statement: ast.stmt
    ) -> Iterator[tuple[NameUse, list[Target]]]:
        """The names that are imported and used inside a function or a `try`."""
        code = self._code(unit.module)
        for node in ast.walk(statement):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names, _stars = imports_in(node, code)
                for name, target in names.items():
                    yield from self._imported_uses(statement, name, target)

    def _imported_uses(
        self, statement: ast.stmt, name: str, target: ImportedName
    ) -> Iterator[tuple[NameUse, list[Target]]]:
        used = {
            chain
            for node in ast.walk(statement)
            if isinstance(node, ast.Attribute | ast.Name)
            and (chain := _chain(node)) is not None
            and chain.name == name
        }
        longest = [one for one in used if not any(_extends(other, one) for other in used)]
        for chain in sorted(longest) or [NameUse(name)]:
            yield chain, self._follow(target, chain.attributes, NONE)

    def _resolve(self, module: str, used: NameUse, seen: frozenset[str] = NONE) -> list[Target]:
        """The units, or the name of a library, that a name in a module stands for."""
        place = f"{module}:{used.name}"
        if place in seen:  # two modules import a name from each other, and neither binds it
            return []
        seen |= {place}
        bindings = self._names(module)
        if used.name in bindings.units:
            return list(bindings.units[used.name])
        if used.name in bindings.imports:
            return self._follow(bindings.imports[used.name], used.attributes, seen)
        for star in bindings.stars:
            if self._modules.exists(star) and (targets := self._resolve(star, used, seen)):
                return targets
        return []

    def _follow(
        self, target: ImportedName, attributes: tuple[str, ...], seen: frozenset[str]
    ) -> list[Target]:
        """What an imported name and its attributes stand for."""
        path = attributes if target.name is None else (target.name, *attributes)
        module = target.module
        while (
            path and self._modules.exists(f"{module}.{path[0]}") and not self._has(module, path[0])
        ):
            module, path = f"{module}.{path[0]}", path[1:]
        if not self._modules.exists(module):
            return [_Outside(".".join((module, *path)))]
        if not path:
            return self._all_units(module)
        return self._resolve(module, NameUse(path[0], path[1:]), seen)

    def _has(self, module: str, name: str) -> bool:
        names = self._names(module)
        return name in names.units or (
            name in names.imports and names.imports[name] != ImportedName(module, name)
        )

    def _all_units(self, module: str) -> list[Target]:
        """All units of a module that is passed as a value: any of them may be used."""
        code = self._modules.code(module)
        if code is None:
            return []
        return [
            CodeUnit(module, index)
            for index, statement in enumerate(code.tree.body)
            if not isinstance(statement, ast.Import | ast.ImportFrom)
            and not is_docstring(statement)
        ]

    def _names(self, module: str) -> Bindings:
        if module not in self._bindings:
            code = self._modules.code(module)
            self._bindings[module] = Bindings() if code is None else bindings_of(code)
        return self._bindings[module]

    def _code(self, module: str) -> ModuleCode:
        code = self._modules.code(module)
        if code is None:
            raise KeyError(module)
        return code


def _is_decorated(node: ast.AST) -> TypeGuard[ast.FunctionDef | ast.AsyncFunctionDef]:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and bool(node.decorator_list)


def _digest(statement: ast.stmt) -> str:
    return hashlib.sha256(json.encode(canonical_tree(statement))).hexdigest()


def _libraries(look: _Look) -> str:
    """The library names that a statement uses: with other imports it is other code."""
    names = {each.name for _, some in look.targets for each in some if isinstance(each, _Outside)}
    return "".join(f" {name}" for name in sorted(names))


def _digest_of(hashes: list[str]) -> str:
    return hashlib.sha256("".join(sorted(hashes)).encode()).hexdigest()


def part_name(statement: ast.stmt, module: str) -> str:
    """The name of a top-level statement in messages."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
        return f"function {statement.name}"
    if isinstance(statement, ast.ClassDef):
        return f"class {statement.name}"
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    if isinstance(statement, ast.AnnAssign | ast.AugAssign):
        targets = [statement.target]
    names = [node.id for each in targets for node in ast.walk(each) if isinstance(node, ast.Name)]
    return f"constant {', '.join(names)}" if names else f"code of {module}"


def first_line(statement: ast.stmt) -> int:
    """The line on which a statement begins, decorators included."""
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(each.lineno for each in decorators)])


def _chain(node: ast.AST) -> NameUse | None:
    attributes: list[str] = []
    while isinstance(node, ast.Attribute):
        attributes.insert(0, node.attr)
        node = node.value
    return NameUse(node.id, tuple(attributes)) if isinstance(node, ast.Name) else None


def _extends(longer: NameUse, shorter: NameUse) -> bool:
    size = len(shorter.attributes)
    return len(longer.attributes) > size and longer.attributes[:size] == shorter.attributes
