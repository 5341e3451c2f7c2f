"""Fingerprints: whether the code behind an asset is still the code that made its data.

The fingerprint is the SHA-256 of the function's syntax without comments, docstrings and positions, of all
functions, classes and constants of the project that it reaches, and of the options that change data: mode,
format, dimensions, and which parameter reads which partitions of which table. Options that decide only
which partitions exist (start, end, values) or how a run goes (retries, pool, checks) are not part of it. Of
libraries only the used names count, not their versions.
"""

import ast
import copy
import functools
import hashlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import date, time, timedelta
from enum import Enum
from pathlib import PurePath
from typing import Any
from zoneinfo import ZoneInfo

from arco.core import json
from arco.flow.define.asset import AssetDef, TaskDef
from arco.flow.define.code_graph import Canonical
from arco.flow.define.inputs import InputDef, SourceDef, TableRef
from arco.flow.define.module_names import CodeUnit
from arco.flow.define.options import UNPARTITIONED
from arco.flow.define.project import Project
from arco.flow.define.sql_query import normalize_sql
from arco.flow.partition import Dimension, Mapping, Partitions
from arco.flow.partition.link import DimensionLink, TimeShiftLink, UnlinkedDimension
from arco.flow.partition.mapping import LinkedMapping

_FLOW = "arco.flow."
_RULES = (
    "NotNull",
    "Unique",
    "Expression",
    "RowCount",
    "AcceptedValues",
    "Range",
    "Freshness",
    "References",
)
# Fingerprints are stored. What was moved or renamed in Arco keeps the name there that was first recorded.
_RECORDED_NAMES = {
    "define.asset.TaskDef": "define.task.TaskDef",
    "define.asset.task": "define.task.task",
    **{f"define.check_rules.{name}": f"define.check.{name}" for name in _RULES},
    **{
        f"define.check_rules.{name}": f"define.check.{name}"
        for name in ("CheckDef", "Result", "check")
    },
    "define.check_rules.FunctionRule": "define.check.Judged",
    "define.check_rules.QueryRule": "define.check.Query",
    "define.declarations.SourceLine": "define.where.SourceLine",
    **{f"define.inputs.{name}": f"define.source.{name}" for name in ("SourceDef", "source")},
    **{
        f"define.inputs.{name}": f"define.table.{name}"
        for name in ("InputDef", "TableRef", "table")
    },
    **{f"define.options.{name}": f"define.mode.{name}" for name in ("Mode", "merge")},
    "define.options.Retry": "define.retry.Retry",
    "partition.calendar.Hourly": "partition.hourly.Hourly",
    **{f"partition.dimension.{name}": f"partition.listed.{name}" for name in ("Dynamic", "Static")},
    "partition.mapping.ShiftMapping": "partition.shift.Shift",
    **{f"partition.mapping.{name}": f"partition.custom.{name}" for name in ("_Custom", "custom")},
    **{f"partition.mapping.{name}": f"partition.shift.{name}" for name in ("offset", "window")},
    **{
        f"partition.mapping.{name}": f"partition.whole.{name}"
        for name in ("_Everything", "_Latest")
    },
    "partition.partitions.Partitions": "partition.product.Partitions",
}
_SIMPLE = (str, bytes, int, float, complex, date, time, timedelta, type(None), type(...))


@dataclass
class CanonicalValues:
    """Values in canonical form, the same on every machine, and the functions in them, whose code counts."""

    functions: list[Callable[..., object]] = field(default_factory=list)
    _open: set[int] = field(default_factory=set)

    def value(self, value: object) -> Canonical:
        """A value as nested lists of texts; of other types only the type name."""
        if isinstance(value, Enum):
            return [_type(value), value.name]
        if isinstance(value, _SIMPLE):
            return f"{type(value).__name__}:{value!r}"
        if isinstance(value, ZoneInfo):
            return ["zone", value.key]
        if isinstance(value, PurePath):
            return ["path", value.as_posix()]
        if id(value) in self._open:  # a list that contains itself
            return ["again"]
        self._open.add(id(value))
        try:
            return self._several(value)
        finally:
            self._open.discard(id(value))

    def _several(self, value: object) -> Canonical:
        if isinstance(value, list | tuple):
            return [type(value).__name__, *map(self.value, value)]
        if isinstance(value, set | frozenset):
            return ["set", *sorted(map(self.value, value), key=repr)]
        if isinstance(value, dict):
            return ["dict", *([self.value(key), self.value(each)] for key, each in value.items())]
        return self._thing(value)

    def _thing(self, value: object) -> Canonical:
        if is_dataclass(value) and not isinstance(value, type):
            return [_type(value), *(self._field(value, each.name) for each in fields(value))]
        if isinstance(value, functools.partial):
            return [
                "partial",
                self.value(value.func),
                *map(self.value, (value.args, value.keywords)),
            ]
        if inspect.isroutine(value) or isinstance(value, type):
            return self.function(value)
        return ["thing", _type(value)]

    def function(self, function: Callable[..., object]) -> Canonical:
        """A function by its number among those met, with the values that it captured."""
        plain_function: Any = inspect.unwrap(function)
        if plain_function in self.functions:
            return ["function", str(self.functions.index(plain_function))]
        number = len(self.functions)
        self.functions.append(plain_function)
        held = [_held(cell) for cell in getattr(plain_function, "__closure__", None) or ()]
        return ["function", str(number), *map(self.value, held)]

    def _field(self, value: object, name: str) -> Canonical:
        return [name, self.value(getattr(value, name))]


def _held(cell: Any) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # the cell is not filled yet
        return None


def _type(value: object) -> str:
    return _recorded_name(type(value))


def _recorded_name(named: object) -> str:
    """The full name of a type or function, as it is recorded in fingerprints."""
    name = f"{getattr(named, '__module__', '')}.{getattr(named, '__qualname__', '')}"
    if not name.startswith(_FLOW):
        return name
    short = name.removeprefix(_FLOW)
    return _FLOW + _RECORDED_NAMES.get(short, short)


def code_fingerprint(asset: AssetDef | TaskDef, project: Project) -> str:
    """The fingerprint of the code behind an asset or a task, 64 hexadecimal digits."""
    written = _written(asset, project)
    reached = written.functions.reached(project)
    parts: list[Canonical] = ["arco code 1", written.options, written.code, reached]
    return hashlib.sha256(json.encode(parts)).hexdigest()


def checks_fingerprint(asset: AssetDef | TaskDef, project: Project) -> str | None:
    """The fingerprint of the checks of an asset; None if it has none.

    It is not part of `code_fingerprint`: a changed check makes no data stale. But a worker with other
    checks would publish data that the current ones reject.
    """
    if isinstance(asset, TaskDef) or not asset.checks:
        return None
    values = CanonicalValues()
    checks: list[Canonical] = [
        [each.name, each.table, each.severity, values.value(each.rule)]
        for each in sorted(asset.checks, key=lambda each: (each.table, each.name))
    ]
    parts: list[Canonical] = [
        "arco checks 1",
        checks,
        _functions(values, None, project).reached(project),
    ]
    return hashlib.sha256(json.encode(parts)).hexdigest()


def code_parts(asset: AssetDef | TaskDef, project: Project) -> dict[str, str]:
    """The parts of the code behind an asset or a task, each with a short hash, to describe changes."""
    written = _written(asset, project)
    parts = dict[str, str]()
    for option in written.options:
        items: list[Canonical] = option if isinstance(option, list) else [option]
        name, *value = items
        parts[_PARTS.get(str(name), f"option {name}")] = _short(value)
    if written.code:
        defaults, captured = written.code
        parts["default values"] = _short([defaults])
        parts["captured values"] = _short([captured])
    functions = written.functions
    parts["names of functions"] = _short(functions.names)
    return parts | project.code.parts(functions.roots, functions.ready)


def limit_parts(parts: dict[str, str], max_chars: int) -> dict[str, str]:
    """As many parts as fit into so many characters of JSON, and one hash for all others."""
    if len(json.encode(parts)) <= max_chars:
        return parts
    kept: dict[str, str] = {}
    size = len(json.encode({_OTHER_PARTS: "0" * _SHORT_CHARS}))
    for name, part in parts.items():
        size += len(json.encode({name: part}))
        if size > max_chars:
            break
        kept[name] = part
    return kept | {_OTHER_PARTS: _other_parts(parts, kept)}


def changed_parts(before: dict[str, str], now: dict[str, str]) -> tuple[str, ...]:
    """The parts that differ between two versions of the code, and how; `before` may be limited."""
    if _OTHER_PARTS in before:
        kept = {name: part for name, part in before.items() if name != _OTHER_PARTS}
        named = changed_parts(kept, {name: now[name] for name in now if name in kept})
        is_same = before[_OTHER_PARTS] == _other_parts(now, kept)
        return (
            named if is_same else (*named, "other parts changed, which are too many to be recorded")
        )
    changes = {
        **{name: "changed" for name in now if name in before and before[name] != now[name]},
        **{name: "added" for name in now if name not in before},
        **{name: "removed" for name in before if name not in now},
    }
    return tuple(f"{name} {change}" for name, change in changes.items())


def _other_parts(parts: dict[str, str], kept: dict[str, str]) -> str:
    """One hash for the parts that are not kept."""
    return _short([[name, parts[name]] for name in sorted(parts.keys() - kept.keys())])


_OTHER_PARTS = "..."  # no part has this name
_PARTS = {"sql": "query", "inputs": "inputs", "outputs": "outputs"}
_SHORT_CHARS = 12


def _short(value: list[Canonical]) -> str:
    return hashlib.sha256(json.encode(value)).hexdigest()[:_SHORT_CHARS]


@dataclass(frozen=True)
class _Functions:
    """The functions behind an asset; those of libraries count by name."""

    names: list[Canonical]
    roots: list[CodeUnit]
    ready: dict[CodeUnit, ast.stmt]

    def reached(self, project: Project) -> list[Canonical]:
        """All code of the project that they reach."""
        return [self.names, project.code.reached(self.roots, self.ready)]


@dataclass(frozen=True)
class _Code:
    """The parts of the fingerprint of an asset or a task, before hashing."""

    options: list[Canonical]
    code: list[Canonical]
    functions: _Functions


def _written(asset: AssetDef | TaskDef, project: Project) -> _Code:
    values, root = CanonicalValues(), asset.function
    options = _options(asset, project, values)
    code: list[Canonical] = []
    if root is not None:
        code = [_defaults(root, values), values.value(root)]
    return _Code(options, code, _functions(values, root, project))


def _functions(
    values: CanonicalValues, root: Callable[..., object] | None, project: Project
) -> _Functions:
    roots: list[CodeUnit] = []
    ready: dict[CodeUnit, ast.stmt] = {}
    names: list[Canonical] = []
    for function in values.functions:
        located = project.code.unit_of(function)
        if located is None:
            names.append(f"lib:{_recorded_name(function)}")
            continue
        unit, name = located
        roots.append(unit)
        names.append(name)
        if root is not None and function is inspect.unwrap(root):
            ready[unit] = _without_tables(project.code.statement(unit), function)
    return _Functions(names, roots, ready)


def _options(
    asset: AssetDef | TaskDef, project: Project, values: CanonicalValues
) -> list[Canonical]:
    parts: list[Canonical] = [
        ["partitions", _dimensions(asset.partitions)],
        ["inputs", *(_input(each, asset, project, values) for each in asset.inputs)],
        ["outputs", *(output.key for output in asset.outputs)],
    ]
    if isinstance(asset, AssetDef):
        parts += [
            ["mode", asset.mode.kind, *asset.mode.on],
            ["format", asset.format],
            ["sql", normalize_sql(asset.sql or "")],
        ]
    return parts


def _dimensions(partitions: Partitions) -> list[Canonical]:
    return [_dimension(each) for each in partitions]


def _dimension(dimension: Dimension) -> Canonical:
    zone = getattr(dimension, "tz", "")
    return [type(dimension).__name__, dimension.name, str(zone)]


def _input(
    parts: InputDef, asset: AssetDef | TaskDef, project: Project, values: CanonicalValues
) -> Canonical:
    reads = project.tables.get(parts.table, UNPARTITIONED)
    mapping = _mapping(parts.mapping, asset.partitions, reads, values)
    return [parts.parameter, parts.table, mapping]


def _mapping(
    mapping: Mapping | None, of: Partitions, reads: Partitions, values: CanonicalValues
) -> Canonical:
    """The effect of a mapping, so that writing out the default changes nothing."""
    if isinstance(mapping, LinkedMapping):
        return [_link(each) for each in mapping.links(of, reads)]
    return values.value(mapping)


def _link(link: DimensionLink | UnlinkedDimension) -> Canonical:
    if isinstance(link, UnlinkedDimension):
        return ["newest" if link.newest else "all", _dimension(link.reads)]
    if isinstance(link, TimeShiftLink):
        moved = f"{link.back}..{link.ahead}"
        return ["shifted", _dimension(link.of), _dimension(link.reads), moved]
    return ["same", _dimension(link.of)]


def _defaults(function: Callable[..., object], values: CanonicalValues) -> Canonical:
    """The default values of a function; a factory may make many functions with different ones."""
    defaults: list[Canonical] = []
    for name, parameter in inspect.signature(function).parameters.items():
        default = parameter.default
        if default is not parameter.empty and not isinstance(default, TableRef | SourceDef):
            defaults.append([name, values.value(default)])
    return defaults


def _without_tables(statement: ast.stmt, function: Callable[..., object]) -> ast.stmt:
    """The function without its `table(...)` defaults, which count by their effect."""
    if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
        return statement
    if statement.name != function.__qualname__:
        return statement
    changed = copy.copy(statement)
    changed.args = copy.copy(statement.args)
    defaults = getattr(function, "__defaults__", None) or ()
    keyword_defaults = getattr(function, "__kwdefaults__", None) or {}
    pairs = zip(changed.args.defaults, defaults, strict=True)
    changed.args.defaults = [_unless_table(node, value) for node, value in pairs]
    changed.args.kw_defaults = [
        node if node is None else _unless_table(node, keyword_defaults.get(argument.arg))
        for argument, node in zip(changed.args.kwonlyargs, changed.args.kw_defaults, strict=True)
    ]
    return changed


def _unless_table(node: ast.expr, value: object) -> ast.expr:
    return ast.Constant(None) if isinstance(value, TableRef | SourceDef) else node
