"""JSON: one encoder, one decoder, and a canonical form for documents that are hashed.

Decoding raises nothing but `Invalid`: recursion and UTF-8 errors are outside the error tree of the
decoder, and any client could crash a request with them.
"""

import json as stdlib_json
from collections.abc import Callable
from typing import TypeVar

import msgspec
import rfc8785

from arco.core.errors import Invalid

T = TypeVar("T")

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]

_encoder = msgspec.json.Encoder()
_PROBLEMS = (msgspec.MsgspecError, ValueError, OverflowError, RecursionError)


def encode(value: object) -> bytes:
    """`value` as compact UTF-8 JSON; structs keep the order of their fields."""
    return _encoder.encode(value)


def decode(data: bytes, kind: type[T]) -> T:
    """`data` as a `kind`, or `Invalid` with the reason."""
    try:
        return msgspec.json.decode(data, type=kind)
    except _PROBLEMS as problem:
        raise Invalid(explain(problem)) from problem


def refuse_duplicate_keys(data: bytes) -> None:
    """`Invalid` if an object in `data`, which was decoded before, has a key twice.

    The decoder takes the last of them silently, and another reader of the same bytes may take the first.
    """
    try:
        stdlib_json.loads(data, object_pairs_hook=_refuse_duplicates)
    except (ValueError, RecursionError) as problem:
        raise Invalid(explain(problem)) from problem


def _refuse_duplicates(pairs: list[tuple[str, object]]) -> None:
    if len(pairs) > 1 and len({key for key, _ in pairs}) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise Invalid(f"JSON has the key {twice[:80]!r} twice in one object")


def reader(kind: type[T]) -> Callable[[bytes | msgspec.Raw], T]:
    """`decode` for one kind, prepared once; for documents that are read thousands of times a second."""
    read = msgspec.json.Decoder(kind).decode

    def decoded(data: bytes | msgspec.Raw) -> T:
        try:
            return read(data)
        except _PROBLEMS as problem:
            raise Invalid(explain(problem)) from problem

    return decoded


def explain(problem: Exception) -> str:
    """One sentence on why decoding failed, without internals."""
    if isinstance(problem, RecursionError):
        return "JSON is nested too deeply"
    if isinstance(problem, UnicodeDecodeError):
        return f"not valid UTF-8 at byte {problem.start}"
    return str(problem).partition("\n")[0]


def canonical(value: Json) -> bytes:
    """`value` in RFC 8785 form: equal documents have equal bytes."""
    try:
        return rfc8785.dumps(value)
    except (rfc8785.CanonicalizationError, RecursionError, UnicodeEncodeError) as problem:
        raise Invalid(f"cannot be written as canonical JSON: {explain(problem)}") from problem
