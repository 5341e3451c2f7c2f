"""Plain words: what user code says, as it can be told to anybody.

Names of files need not be UTF-8, and who counts with numpy or pandas has numbers of their own. Neither can
be written as JSON, though both mean something.
"""

from math import isfinite
from numbers import Integral
from typing import SupportsFloat

import msgspec

from arco.core import json
from arco.flow.run.wire import Outcome


def plain_text(text: str) -> str:
    """The text, with what UTF-8 cannot carry spelled out."""
    return text.encode(errors="backslashreplace").decode()


def plain_number(said: SupportsFloat) -> float:
    """The number as one of Python's own; `ValueError` if it is none."""
    if isinstance(said, Integral):
        return int(said)
    try:
        return float(said)
    except (TypeError, ValueError, OverflowError) as problem:
        raise ValueError(f"{said!r} is no number") from problem


def plain_metric(said: SupportsFloat) -> float | str:
    """A number that JSON can carry; those that it cannot, such as nan, by their names."""
    number = plain_number(said)
    return number if isinstance(number, int) or isfinite(number) else str(number)


def plain_outcome(outcome: Outcome) -> Outcome:
    """The outcome with all its texts plain; which are so nearly always."""
    try:
        json.encode(outcome)
    except UnicodeEncodeError:
        return msgspec.convert(_plain(msgspec.to_builtins(outcome)), Outcome)
    return outcome


def _plain(value: object) -> object:
    match value:
        case str():
            return plain_text(value)
        case dict():
            return {_plain(name): _plain(each) for name, each in value.items()}
        case list() | tuple():
            return [_plain(each) for each in value]
    return value
