"""Assets that are queries: `sql("gold.spend", path="spend.sql")`, or a SQL file with a header.

The header has the options of the asset as YAML in a comment:

/*---
name: gold.spend
partitions: {daily: ds, start: 2026-01-01}
checks: [{not_null: [region]}, {row_count: {min: 1}, severity: warn}]
inputs: {orders: {table: silver.orders, window: 7}}
---*/
select region, sum(amount) as spend from orders group by region
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from arco.core.errors import Invalid
from arco.flow.define import checks as c
from arco.flow.define.asset import AssetDef, AssetOptions, collect_asset
from arco.flow.define.check_rules import CheckDef
from arco.flow.define.declarations import (
    Declarations,
    DefinitionProblem,
    SourceLine,
    current_declarations,
    declared_at,
    declared_name,
    problem_at,
    report_problem,
)
from arco.flow.define.inputs import InputDef, mapping_from_options, missing_from_option
from arco.flow.define.options import Mode, PartitionsOption, Retry, merge, retry_from_config
from arco.flow.define.sql_query import SqlSyntaxError, TableReference, find_table_references
from arco.flow.partition import Daily, Dimension, Dynamic, Hourly, Monthly, Static, Weekly
from arco.flow.table_name import qualified_name

_HEADER = re.compile(r"\A\s*/\*---[ \t]*\n?(?P<yaml>.*?)[ \t]*---\*/", re.DOTALL)
_DIMENSIONS: dict[str, Callable[..., Dimension]] = {
    "hourly": Hourly,
    "daily": Daily,
    "weekly": Weekly,
    "monthly": Monthly,
    "static": Static,
    "dynamic": Dynamic,
}
_CHECKS: dict[str, Callable[..., CheckDef]] = {
    "not_null": c.not_null,
    "unique": c.unique,
    "expr": c.expr,
    "row_count": c.row_count,
    "accepted_values": c.accepted_values,
    "range": c.range,
    "freshness": c.freshness,
    "sql": c.sql,
    "references": c.references,
}
_KEYS = {"checks", "description", "format", "inputs", "mode", "name", "owner", "partitions", "pool"}
_KEYS |= {"on_change", "on_missing_column", "retries", "strict", "tags", "timeout"}


class HeaderError(Invalid):
    """A header that is not YAML; `line` is counted from the top of the file."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


@dataclass(frozen=True)
class SqlHeader:
    """The header of a SQL file."""

    name: str | None
    options: AssetOptions
    inputs: tuple[InputDef, ...]


def split_header(text: str) -> tuple[dict[str, object] | None, str]:
    """The parsed YAML of the header, if any, and the query with its line numbers unchanged."""
    match = _HEADER.match(text)
    if match is None:
        return None, text
    first = text.count("\n", 0, match.start("yaml")) + 1
    try:
        value = yaml.safe_load(match["yaml"]) or {}
    except yaml.YAMLError as wrong:
        line = first + _line(wrong, match["yaml"].count("\n"))
        raise HeaderError(
            f"the header is not valid YAML: {_one_line_message(wrong)}", line
        ) from wrong
    if not isinstance(value, dict):
        raise HeaderError("the header is a list of options, such as name: gold.spend", first)
    return value, "\n" * text.count("\n", 0, match.end()) + text[match.end() :]


def _line(wrong: yaml.YAMLError, end: int) -> int:
    """The line of the error; for what is never closed the line where it begins."""
    marks = [getattr(wrong, each, None) for each in ("problem_mark", "context_mark")]
    lines = [mark.line for mark in marks if mark is not None]
    return next((line for line in lines if line < end), 0)


def _one_line_message(wrong: yaml.YAMLError) -> str:
    """The parser's message without its line numbers and the excerpt."""
    value = [getattr(wrong, each, None) for each in ("context", "problem")]
    return ", ".join(filter(None, value)) or str(wrong).partition("\n")[0]


def read_header(value: dict[str, object]) -> SqlHeader:
    """The options of a header; wrong ones are reported, and the rest is still read."""
    for key in sorted(set(map(str, value)) - _KEYS):
        report_problem(f"{key!r} is not an option of a query: {', '.join(sorted(_KEYS))}")
    options = AssetOptions(
        partitions=_partitions(value.get("partitions")),
        mode=_mode(value.get("mode")),
        on_change=_text(value, "on_change"),
        checks=[made for each in _listed(value.get("checks")) if (made := _header_check(each))],
        retries=_retries(value.get("retries")),
        tags=[str(each) for each in _listed(value.get("tags"))],
        strict=value.get("strict") is True,
        on_missing_column=_text(value, "on_missing_column"),
        format=_text(value, "format"),
        timeout=_text(value, "timeout"),
        pool=_text(value, "pool"),
        owner=_text(value, "owner"),
        description=_text(value, "description"),
    )
    return SqlHeader(_text(value, "name"), options, _inputs(value.get("inputs")))


def _text(header: dict[str, object], key: str) -> str | None:
    value = header.get(key)
    if value is None or isinstance(value, str):
        return value
    report_problem(f"{key} is a text, not {value!r}")
    return None


def _listed(value: object) -> list[object]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _partitions(value: object) -> list[Dimension]:
    return [made for each in _listed(value) if (made := _dimension(each)) is not None]


def _dimension(value: object) -> Dimension | None:
    kinds = [each for each in _DIMENSIONS if isinstance(value, dict) and each in value]
    if not isinstance(value, dict) or len(kinds) != 1:
        report_problem(f"a partition is written {{daily: ds, start: 2026-01-01}}, not {value!r}")
        return None
    options = {key: value for key, value in value.items() if key != kinds[0]}
    try:
        return _DIMENSIONS[kinds[0]](value[kinds[0]], **options)
    except (Invalid, TypeError) as wrong:
        report_problem(str(wrong))
        return None


def _mode(value: object) -> str | Mode | None:
    if isinstance(value, dict) and set(value) == {"merge"}:
        return merge([str(each) for each in _listed(value["merge"])])
    if value is None or isinstance(value, str):
        return value
    report_problem(f"mode is a text or {{merge: [order_id]}}, not {value!r}")
    return None


def _retries(value: object) -> Retry | None:
    return None if value is None else retry_from_config(value)


def _header_check(value: object) -> CheckDef | None:
    kinds = [each for each in _CHECKS if isinstance(value, dict) and each in value]
    if not isinstance(value, dict) or not kinds:
        report_problem(f"a check is written {{not_null: [order_id]}}, not {value!r}")
        return None
    kind, options = kinds[0], {key: value for key, value in value.items() if key != kinds[0]}
    arguments = value[kind]
    try:
        if isinstance(arguments, dict):
            return _CHECKS[kind](**arguments, **options)
        return _CHECKS[kind](*_listed(arguments), **options)
    except TypeError as wrong:
        report_problem(f"the check {kind} is not valid: {wrong}")
        return None


def _inputs(value: object) -> tuple[InputDef, ...]:
    if value is None:
        return ()
    if not isinstance(value, dict):
        report_problem(f"inputs are written {{orders: silver.orders}}, not {value!r}")
        return ()
    return tuple(_input(str(name), value) for name, value in value.items())


def _input(name: str, value: object) -> InputDef:
    options: dict[str, Any] = value if isinstance(value, dict) else {"table": value}
    unknown = set(options) - {"table", "window", "offset", "partitions", "missing"}
    if unknown or "table" not in options:
        report_problem(
            f"the input {name!r} takes table, one of window, offset, partitions, and missing"
        )
    shift, partitions = options.get("offset"), options.get("partitions")
    mapping = mapping_from_options(options.get("window"), shift, partitions, None)
    reads_one = shift is not None or partitions == "latest"
    missing = missing_from_option(options.get("missing"), reads_one=reads_one)
    table = declared_name(options.get("table", name))
    return InputDef(name, table, mapping, where=declared_at(), missing=missing)


def sql(
    name: str,
    *,
    path: str | None = None,
    query: str | None = None,
    partitions: PartitionsOption = None,
    mode: str | Mode | None = None,
    on_change: str | None = None,
    format: str | None = None,  # noqa: A002 - the word that people look for
    checks: Sequence[CheckDef] = (),
    retries: int | Retry | None = None,
    timeout: str | None = None,
    pool: str | None = None,
    tags: Sequence[str] = (),
    owner: str | None = None,
    description: str | None = None,
    strict: bool = False,
    on_missing_column: str | None = None,
) -> None:
    """Declare that a query computes a table; `path` is relative to the declaring file."""
    options = AssetOptions(
        partitions=partitions,
        mode=mode,
        on_change=on_change,
        format=format,
        checks=checks,
        retries=retries,
        timeout=timeout,
        pool=pool,
        tags=tags,
        owner=owner,
        description=description,
        strict=strict,
        on_missing_column=on_missing_column,
    )
    if (path is None) == (query is None):
        report_problem("a query is given by its path or as text: give one of both")
        return
    where = declared_at()
    if query is not None:
        collect_asset(_Query(query, where).asset(name, options))
        return
    declarations = current_declarations()
    if declarations is not None and path is not None:
        _from_file(
            declarations, declarations.folder / Path(where.file).parent / path, name, options
        )


def _from_file(declarations: Declarations, path: Path, name: str, options: AssetOptions) -> None:
    path = path.resolve()
    declarations.sql_files.add(path)
    if not path.is_relative_to(declarations.folder) or not path.is_file():
        report_problem(f"there is no file {path.name} at this path in the project")
        return
    value, query = split_header(path.read_text(encoding="utf-8"))
    if value is not None:
        report_problem(
            f"{path.name} has a header: its options stand there or here, not in both places"
        )
    where = declared_at()
    file = path.relative_to(declarations.folder).as_posix()
    collect_asset(_Query(query, where, file).asset(name, options))


def load_sql(declarations: Declarations, path: Path) -> None:
    """Declare the asset of a file with a header; a file without one gets a warning."""
    file = path.relative_to(declarations.folder).as_posix()
    declarations.declared_in = SourceLine(file, 1)
    text = ""
    try:
        text = path.read_text(encoding="utf-8")
        value, query = split_header(text)
        if value is None:
            _declares_nothing(declarations, path)
            return
        header = read_header(value)
        if header.name is None:
            report_problem("the header does not name its table: write name: gold.spend")
            return
        where = declarations.declared_in
        made = _Query(query, where, file, header.inputs)
        collect_asset(made.asset(header.name, header.options))
    except HeaderError as wrong:
        declarations.problems.append(DefinitionProblem(file, wrong.line, str(wrong)))
        declarations.unread.append(text)
    except UnicodeDecodeError as wrong:
        report_problem(f"the file is not UTF-8: {wrong}")
    finally:
        declarations.declared_in = None


def _declares_nothing(declarations: Declarations, path: Path) -> None:
    """Warn of a query without a header, unless a module that could not be loaded names it."""
    if any(path.name in text for text in declarations.unread):
        return
    header = "/*--- name: gold.spend ---*/"
    message = f"declares nothing: it has no header {header}, and no sql(path=...) names it"
    file = path.relative_to(declarations.folder).as_posix()
    declarations.warnings.append(DefinitionProblem(file, 1, message))


@dataclass(frozen=True)
class _Query:
    """A query, its declared inputs, and where both were declared."""

    text: str
    where: SourceLine
    file: str | None = None  # of the query, if it has one
    inputs: tuple[InputDef, ...] = ()

    def asset(self, name: str, options: AssetOptions) -> AssetDef:
        if not self.text.strip():
            report_problem("the query is empty")
        inputs = (*self.inputs, *self._other_inputs())
        return options.define(
            name, sql=self._stored_text(), sql_file=self.file, inputs=inputs, where=self.where
        )

    def _stored_text(self) -> str:
        """The query; that of a file keeps its line numbers, for error messages of Spark."""
        return self.text.strip() if self.file is None else self.text.rstrip()

    def _other_inputs(self) -> Iterator[InputDef]:
        """The tables that the query names and that are not declared as inputs."""
        declared = {each.table for each in self.inputs}
        for reference in self._table_references():
            try:
                table = qualified_name(reference.name)
            except Invalid as wrong:
                report_problem(str(wrong))
                continue
            if table not in declared:
                declared.add(table)
                where = self.where if self.file is None else SourceLine(self.file, reference.line)
                yield InputDef(reference.name, table, where=where)

    def _table_references(self) -> list[TableReference]:
        """The tables in the query; its syntax errors are problems, as its inputs are not known then."""
        try:
            return find_table_references(self._stored_text())
        except SqlSyntaxError as wrong:
            declarations = current_declarations()
            if declarations is None:
                raise
            declarations.problems += [
                query_problem(self.where, self.file, *error) for error in wrong.errors
            ]
            return []


def query_problem(
    where: SourceLine, sql_file: str | None, line: int, message: str
) -> DefinitionProblem:
    """An error in a line of a query; a query of a file has the line numbers of the file."""
    if sql_file is not None:
        return DefinitionProblem(sql_file, line, f"the query has a syntax error: {message}")
    return problem_at(where, f"the query has a syntax error in its line {line}: {message}")
