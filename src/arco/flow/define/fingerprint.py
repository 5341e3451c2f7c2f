"""Fingerprints: whether the code behind an asset is still the code that made its data.

The fingerprint is the SHA-256 of the function's syntax without comments, docstrings and positions, of all
functions, classes and constants of the project that it reaches, and of the options that change data: mode,
format, the dimensions, and which parameter reads which partitions of which table. What only says which
partitions there are (start, end, values), or how a run goes (retries, pool, checks), is not part of it. Of
libraries only the names that are used count, not their versions.
"""

import ast
import copy
import hashlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass

from arco.core import json
from arco.flow.define.asset import AssetDef
from arco.flow.define.bindings import Unit
from arco.flow.define.normal import Plain
from arco.flow.define.option import UNPARTITIONED
from arco.flow.define.project import Project
from arco.flow.define.source import SourceDef
from arco.flow.define.sql_text import normal_sql
from arco.flow.define.table import InputDef, TableRef
from arco.flow.define.task import TaskDef
from arco.flow.define.values import Written
from arco.flow.partition import Dimension, Mapping, Partitions
from arco.flow.partition.link import DimensionLink, TimeShiftLink, UnlinkedDimension
from arco.flow.partition.mapping import LinkedMapping


def code_fingerprint(asset: AssetDef | TaskDef, project: Project) -> str:
    """The fingerprint of the code behind an asset or a task, 64 hexadecimal digits."""
    written = _written(asset, project)
    reached = written.functions.reached(project)
    said: list[Plain] = ["arco code 1", written.options, written.code, reached]
    return hashlib.sha256(json.encode(said)).hexdigest()


def checks_fingerprint(asset: AssetDef | TaskDef, project: Project) -> str | None:
    """The fingerprint of the checks of an asset; None if it has none.

    It is no part of `code_fingerprint`: a changed check makes no data stale. But a worker with other checks
    would publish what the present ones reject.
    """
    if isinstance(asset, TaskDef) or not asset.checks:
        return None
    values = Written()
    checks: list[Plain] = [
        [each.name, each.table, each.severity, values.value(each.rule)]
        for each in sorted(asset.checks, key=lambda each: (each.table, each.name))
    ]
    said: list[Plain] = [
        "arco checks 1",
        checks,
        _functions(values, None, project).reached(project),
    ]
    return hashlib.sha256(json.encode(said)).hexdigest()


def code_parts(asset: AssetDef | TaskDef, project: Project) -> dict[str, str]:
    """The parts of the code behind an asset or a task, each with a short hash, to name changes."""
    written = _written(asset, project)
    parts = dict[str, str]()
    for option in written.options:
        items: list[Plain] = option if isinstance(option, list) else [option]
        name, *value = items
        parts[_PARTS.get(str(name), f"option {name}")] = _short(value)
    if written.code:
        defaults, captured = written.code
        parts["default values"] = _short([defaults])
        parts["captured values"] = _short([captured])
    functions = written.functions
    parts["names of functions"] = _short(functions.names)
    return parts | project.code.parts(functions.roots, functions.ready)


def changed_parts(before: dict[str, str], now: dict[str, str]) -> tuple[str, ...]:
    """The names of the parts that differ between two versions of the code, and how."""
    named = {
        **{name: "changed" for name in now if name in before and before[name] != now[name]},
        **{name: "added" for name in now if name not in before},
        **{name: "removed" for name in before if name not in now},
    }
    return tuple(f"{name} {how}" for name, how in named.items())


_PARTS = {"sql": "query", "inputs": "inputs", "outputs": "outputs"}
_SHORT_CHARS = 12


def _short(value: list[Plain]) -> str:
    return hashlib.sha256(json.encode(value)).hexdigest()[:_SHORT_CHARS]


@dataclass(frozen=True)
class _Functions:
    """The functions that were met; those of libraries count by name."""

    names: list[Plain]
    roots: list[Unit]
    ready: dict[Unit, ast.stmt]

    def reached(self, project: Project) -> list[Plain]:
        """All the code of the project that they reach."""
        return [self.names, project.code.reached(self.roots, self.ready)]


@dataclass(frozen=True)
class _Code:
    """What counts of an asset or a task, before it is hashed."""

    options: list[Plain]
    code: list[Plain]
    functions: _Functions


def _written(asset: AssetDef | TaskDef, project: Project) -> _Code:
    values, root = Written(), asset.function
    options = _options(asset, project, values)
    code: list[Plain] = []
    if root is not None:
        code = [_defaults(root, values), values.value(root)]
    return _Code(options, code, _functions(values, root, project))


def _functions(values: Written, root: Callable[..., object] | None, project: Project) -> _Functions:
    roots: list[Unit] = []
    ready: dict[Unit, ast.stmt] = {}
    names: list[Plain] = []
    for function in values.functions:
        found = project.code.unit_of(function)
        if found is None:
            names.append(f"lib:{_full_name(function)}")
            continue
        unit, name = found
        roots.append(unit)
        names.append(name)
        if root is not None and function is inspect.unwrap(root):
            ready[unit] = _without_tables(project.code.statement(unit), function)
    return _Functions(names, roots, ready)


def _options(asset: AssetDef | TaskDef, project: Project, values: Written) -> list[Plain]:
    said: list[Plain] = [
        ["partitions", _dimensions(asset.partitions)],
        ["inputs", *(_input(each, asset, project, values) for each in asset.inputs)],
        ["outputs", *(output.key for output in asset.outputs)],
    ]
    if isinstance(asset, AssetDef):
        said += [
            ["mode", asset.mode.kind, *asset.mode.on],
            ["format", asset.format],
            ["sql", normal_sql(asset.sql or "")],
        ]
    return said


def _dimensions(partitions: Partitions) -> list[Plain]:
    return [_dimension(each) for each in partitions]


def _dimension(dimension: Dimension) -> Plain:
    zone = getattr(dimension, "tz", "")
    return [type(dimension).__name__, dimension.name, str(zone)]


def _input(said: InputDef, asset: AssetDef | TaskDef, project: Project, values: Written) -> Plain:
    reads = project.tables.get(said.table, UNPARTITIONED)
    mapping = _mapping(said.mapping, asset.partitions, reads, values)
    return [said.parameter, said.table, mapping]


def _mapping(mapping: Mapping | None, of: Partitions, reads: Partitions, values: Written) -> Plain:
    """What a mapping means, so that saying the default changes nothing."""
    if isinstance(mapping, LinkedMapping):
        return [_link(each) for each in mapping.links(of, reads)]
    return values.value(mapping)


def _link(link: DimensionLink | UnlinkedDimension) -> Plain:
    if isinstance(link, UnlinkedDimension):
        return ["newest" if link.newest else "all", _dimension(link.reads)]
    if isinstance(link, TimeShiftLink):
        moved = f"{link.back}..{link.ahead}"
        return ["shifted", _dimension(link.of), _dimension(link.reads), moved]
    return ["same", _dimension(link.of)]


def _defaults(function: Callable[..., object], values: Written) -> Plain:
    """Defaults that a function was made with; a factory may make many, each with its own."""
    found: list[Plain] = []
    for name, parameter in inspect.signature(function).parameters.items():
        default = parameter.default
        if default is not parameter.empty and not isinstance(default, TableRef | SourceDef):
            found.append([name, values.value(default)])
    return found


def _without_tables(statement: ast.stmt, function: Callable[..., object]) -> ast.stmt:
    """The function without its `table(...)` defaults: they count by what they mean, not how it is said."""
    if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
        return statement
    if statement.name != function.__qualname__:
        return statement
    changed = copy.copy(statement)
    changed.args = copy.copy(statement.args)
    given = getattr(function, "__defaults__", None) or ()
    keyed = getattr(function, "__kwdefaults__", None) or {}
    pairs = zip(changed.args.defaults, given, strict=True)
    changed.args.defaults = [_unless_table(node, value) for node, value in pairs]
    changed.args.kw_defaults = [
        node if node is None else _unless_table(node, keyed.get(argument.arg))
        for argument, node in zip(changed.args.kwonlyargs, changed.args.kw_defaults, strict=True)
    ]
    return changed


def _unless_table(node: ast.expr, value: object) -> ast.expr:
    return ast.Constant(None) if isinstance(value, TableRef | SourceDef) else node


def _full_name(function: Callable[..., object]) -> str:
    return f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', '')}"
