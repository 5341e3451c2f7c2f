"""Parameters after the question mark, as types; strict, because a misspelt one changes what is answered.

Unknown names, repetitions and values that are not of the type are 400. Numbers and booleans have one
spelling each.
"""

import re
from collections.abc import Callable
from functools import cache
from types import NoneType, UnionType
from typing import (
    Annotated,
    Literal,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)
from urllib.parse import unquote_to_bytes

import msgspec
from msgspec import Meta

from arco.api.limits import MOST_PAGE_SIZE, PAGE_SIZE
from arco.core.errors import Invalid
from arco.core.json import explain

Q = TypeVar("Q", bound="Query")

_POINT = (
    "^([0-9]{1,18}|[0-9A-HJKMNP-TV-Z]{26}"
    "|[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9:.]{4,16}([Zz]|[+-][0-9:]{2,6}))$"
)
AsOf = Annotated[
    str,
    Meta(
        max_length=64,
        description="A manifest number, a commit's ULID, or a time such as 2026-01-31T12:00:00Z.",
        extra_json_schema={"pattern": _POINT},  # told, not checked: the catalog says it better
    ),
]
PageSize = Annotated[int, Meta(ge=1, le=MOST_PAGE_SIZE)]
PageToken = Annotated[
    str, Meta(max_length=32_768, description="`next_page_token` of the page before.")
]

Freshness = Annotated[
    Literal["published", "fresh"],
    Meta(description="`fresh` adds what was acknowledged and is not compacted yet."),
]

_NUMBER = re.compile(r"-?[0-9]{1,18}")
_BOOLEANS = {"true": True, "false": False}


class Query(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """No parameters."""


class OpenQuery(Query, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """No parameters that are known; for protocols whose clients may be newer than we are."""


class AtQuery(Query, frozen=True, kw_only=True):
    """A read, now or at some earlier point."""

    as_of: AsOf | None = None


class PageQuery(AtQuery, frozen=True, kw_only=True):
    """A list, page by page. All pages are of the manifest that the first one was read from."""

    page_size: PageSize = PAGE_SIZE
    page_token: PageToken | None = None


class ListQuery(PageQuery, frozen=True, kw_only=True):
    """A list of objects; `dropped` lists those that were dropped and can come back."""

    dropped: bool = False


class SchemaListQuery(ListQuery, frozen=True, kw_only=True):
    """Schemas right below `parent` (levels joined by 0x1F), or at the top of the catalog."""

    parent: str | None = None


class TableListQuery(ListQuery, frozen=True, kw_only=True):
    """Tables of a schema, with their columns if asked for."""

    include: Literal["columns"] | None = None


class ObjectQuery(AtQuery, frozen=True, kw_only=True):
    """An object by its id; `dropped` finds it also if it was dropped."""

    dropped: bool = False


class DropQuery(Query, frozen=True, kw_only=True):
    """`force` drops a container with all it holds."""

    force: bool = False


class DiffQuery(Query, frozen=True, kw_only=True, rename={"from_": "from"}):
    """From one point to another; without `to`, to the newest."""

    from_: AsOf
    to: AsOf | None = None
    page_size: PageSize = PAGE_SIZE
    page_token: PageToken | None = None


def read_query(raw: bytes, kind: type[Q]) -> Q:
    """`raw` as a `kind`, or `Invalid`."""
    if not raw:
        return cast("Q", _empty(kind))
    fields = _fields(kind)
    values: dict[str, object] = {}
    for pair in raw.split(b"&"):
        if not pair:
            continue
        name, _, text = (_unescape(part) for part in pair.partition(b"="))
        if name not in fields:
            if not kind.__struct_config__.forbid_unknown_fields:
                continue
            raise Invalid(f"unknown parameter {name[:80]!r}{_known(fields)}")
        if name in values:
            raise Invalid(f"the parameter {name!r} is there twice")
        values[name] = fields[name](name, text)
    return _convert(values, kind)


@cache  # they are frozen, and most requests have none
def _empty(kind: type[Query]) -> Query:
    return _convert({}, kind)


def _convert(values: dict[str, object], kind: type[Q]) -> Q:
    try:
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as problem:
        raise Invalid(f"the query is not valid: {explain(problem)}") from problem


def _unescape(raw: bytes) -> str:
    try:
        return unquote_to_bytes(raw.replace(b"+", b" ")).decode()
    except UnicodeDecodeError as problem:
        raise Invalid("a parameter is not valid UTF-8") from problem


def _known(fields: dict[str, Callable[[str, str], object]]) -> str:
    return f"; known are {', '.join(fields)}" if fields else "; this route takes none"


@cache
def _fields(kind: type[Query]) -> dict[str, Callable[[str, str], object]]:
    """How to read each parameter, by its name on the wire."""
    hints = get_type_hints(kind)
    return {field.encode_name: _reader(hints[field.name]) for field in msgspec.structs.fields(kind)}


def _reader(hint: object) -> Callable[[str, str], object]:
    inner = [each for each in _alternatives(hint) if each is not NoneType]
    if inner == [int]:
        return _number
    if inner == [bool]:
        return _boolean
    return lambda _name, text: text


def _alternatives(hint: object) -> list[object]:
    if get_origin(hint) is Annotated:
        return _alternatives(get_args(hint)[0])
    if get_origin(hint) in {Union, UnionType}:
        return [each for arg in get_args(hint) for each in _alternatives(arg)]
    return [hint]


def _number(name: str, text: str) -> int:
    if _NUMBER.fullmatch(text) is None:
        raise Invalid(f"the parameter {name!r} is a whole number, not {text[:40]!r}")
    return int(text)


def _boolean(name: str, text: str) -> bool:
    if text not in _BOOLEANS:
        raise Invalid(f"the parameter {name!r} is true or false, not {text[:40]!r}")
    return _BOOLEANS[text]
