"""The header of a SQL file: the options of its asset as YAML, in a comment that SQL passes over.

/*---
name: gold.spend
partitions: {daily: ds, start: 2026-01-01}
checks: [{not_null: [region]}, {row_count: {min: 1}, severity: warn}]
inputs: {orders: {table: silver.orders, window: 7}}
---*/
select region, sum(amount) as spend from orders group by region
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import yaml  # type: ignore[import-untyped]

from arco.core.errors import Invalid
from arco.flow.define import checks as c
from arco.flow.define.asset import AssetOptions
from arco.flow.define.check import CheckDef
from arco.flow.define.collect import complain, here
from arco.flow.define.mode import Mode, merge
from arco.flow.define.name import full_name
from arco.flow.define.retry import Retry
from arco.flow.define.settings import retries_said
from arco.flow.define.table import InputDef, asked_mapping, asked_missing
from arco.flow.partition import Daily, Dimension, Dynamic, Hourly, Monthly, Static, Weekly

_HEADER = re.compile(r"\A\s*/\*---[ \t]*\n(?P<yaml>.*?)^[ \t]*---\*/", re.DOTALL | re.MULTILINE)
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
class Header:
    """What the header of a SQL file says."""

    name: str | None
    options: AssetOptions
    inputs: tuple[InputDef, ...]


def split_header(text: str) -> tuple[dict[str, object] | None, str]:
    """The raw header, if there is one, and the query below it with its lines where they were."""
    found = _HEADER.match(text)
    if found is None:
        return None, text
    first = text.count("\n", 0, found.start("yaml")) + 1
    try:
        said = yaml.safe_load(found["yaml"]) or {}
    except yaml.YAMLError as wrong:
        line = first + _line(wrong, found["yaml"].count("\n"))
        raise HeaderError(f"the header is not valid YAML: {_in_a_line(wrong)}", line) from wrong
    if not isinstance(said, dict):
        raise HeaderError("the header is a list of options, such as name: gold.spend", first)
    return said, "\n" * text.count("\n", 0, found.end()) + text[found.end() :]


def _line(wrong: yaml.YAMLError, end: int) -> int:
    """Where it is wrong; what is never closed is told where it begins, and not where the text ends."""
    marks = [getattr(wrong, each, None) for each in ("problem_mark", "context_mark")]
    lines = [mark.line for mark in marks if mark is not None]
    return next((line for line in lines if line < end), 0)


def _in_a_line(wrong: yaml.YAMLError) -> str:
    """What the parser says, without its own count of lines and the text that it shows below them."""
    said = [getattr(wrong, each, None) for each in ("context", "problem")]
    return ", ".join(filter(None, said)) or str(wrong).partition("\n")[0]


def read_header(said: dict[str, object]) -> Header:
    """The options of a raw header; what is wrong is complained of, and the rest still read."""
    for key in sorted(set(map(str, said)) - _KEYS):
        complain(f"{key!r} is not an option of a query: {', '.join(sorted(_KEYS))}")
    options = AssetOptions(
        partitions=_partitions(said.get("partitions")),
        mode=_mode(said.get("mode")),
        on_change=_text(said, "on_change"),
        checks=[made for each in _several(said.get("checks")) if (made := _check(each))],
        retries=_retries(said.get("retries")),
        tags=[str(each) for each in _several(said.get("tags"))],
        strict=said.get("strict") is True,
        on_missing_column=_text(said, "on_missing_column"),
        format=_text(said, "format"),
        timeout=_text(said, "timeout"),
        pool=_text(said, "pool"),
        owner=_text(said, "owner"),
        description=_text(said, "description"),
    )
    return Header(_text(said, "name"), options, _inputs(said.get("inputs")))


def _text(said: dict[str, object], key: str) -> str | None:
    value = said.get(key)
    if value is None or isinstance(value, str):
        return value
    complain(f"{key} is a text, not {value!r}")
    return None


def _several(value: object) -> list[object]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _partitions(value: object) -> list[Dimension]:
    return [made for each in _several(value) if (made := _dimension(each)) is not None]


def _dimension(said: object) -> Dimension | None:
    kinds = [each for each in _DIMENSIONS if isinstance(said, dict) and each in said]
    if not isinstance(said, dict) or len(kinds) != 1:
        complain(f"a partition is written {{daily: ds, start: 2026-01-01}}, not {said!r}")
        return None
    options = {key: value for key, value in said.items() if key != kinds[0]}
    try:
        return _DIMENSIONS[kinds[0]](said[kinds[0]], **options)
    except (Invalid, TypeError) as wrong:
        complain(str(wrong))
        return None


def _mode(value: object) -> str | Mode | None:
    if isinstance(value, dict) and set(value) == {"merge"}:
        return merge([str(each) for each in _several(value["merge"])])
    if value is None or isinstance(value, str):
        return value
    complain(f"mode is a text or {{merge: [order_id]}}, not {value!r}")
    return None


def _retries(value: object) -> Retry | None:
    return None if value is None else retries_said(value)


def _check(said: object) -> CheckDef | None:
    kinds = [each for each in _CHECKS if isinstance(said, dict) and each in said]
    if not isinstance(said, dict) or not kinds:
        complain(f"a check is written {{not_null: [order_id]}}, not {said!r}")
        return None
    kind, options = kinds[0], {key: value for key, value in said.items() if key != kinds[0]}
    given = said[kind]
    try:
        if isinstance(given, dict):
            return _CHECKS[kind](**given, **options)
        return _CHECKS[kind](*_several(given), **options)
    except TypeError as wrong:
        complain(f"the check {kind} is not valid: {wrong}")
        return None


def _inputs(value: object) -> tuple[InputDef, ...]:
    if value is None:
        return ()
    if not isinstance(value, dict):
        complain(f"inputs are written {{orders: silver.orders}}, not {value!r}")
        return ()
    return tuple(_input(str(name), said) for name, said in value.items())


def _input(name: str, said: object) -> InputDef:
    options: dict[str, Any] = said if isinstance(said, dict) else {"table": said}
    unknown = set(options) - {"table", "window", "offset", "partitions", "missing"}
    if unknown or "table" not in options:
        complain(f"the input {name!r} takes table, one of window, offset, partitions, and missing")
    shift, partitions = options.get("offset"), options.get("partitions")
    mapping = asked_mapping(options.get("window"), shift, partitions, None)
    reads_one = shift is not None or partitions == "latest"
    missing = asked_missing(options.get("missing"), reads_one=reads_one)
    table = full_name(options.get("table", name))
    return InputDef(name, table, mapping, where=here(), missing=missing)
