"""Numbers, times and names as people read them."""

from collections.abc import Sequence
from datetime import timedelta

from arco.core.clock import utc
from arco.core.duration import rough_duration


def format_duration(ms: float | None) -> str:
    """How long something took, if that is known."""
    return "" if ms is None else rough_duration(ms)


def format_number(count: int | None) -> str:
    """A count with its thousands apart."""
    return "" if count is None else f"{count:,}"


def count_of(count: int, what: str) -> str:
    """`1 task`, `3 tasks`."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def format_time(ms: int | None) -> str:
    """A point in time, in UTC, to the second."""
    return "" if ms is None else f"{utc(ms) - timedelta(milliseconds=ms % 1000):%Y-%m-%dT%H:%M:%SZ}"


def first_line(text: str | None) -> str:
    """The first line of a message that says something."""
    lines = (line.strip() for line in (text or "").splitlines())
    return next((line for line in lines if line), "")


def shorten(text: str, width: int) -> str:
    """A text cut to at most so many characters."""
    return text if len(text) <= width else f"{text[: width - 1]}…"


def list_some(texts: Sequence[str], most: int = 4) -> str:
    """The first of them, and how many more there are."""
    more = len(texts) - most
    return ", ".join(texts[:most]) + (f" and {more:,} more" if more > 0 else "")
