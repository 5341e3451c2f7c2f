"""Log lines: JSON, one a request, free of secrets.

What may hold one is never a field: no query string, no header but the request's id. An error of our own
is told with its words if they name no path, address or secret; any other by its type and the places in our
code that it went through.
"""

import logging
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import structlog
from structlog.typing import EventDict, FilteringBoundLogger, WrappedLogger

from arco.core import json
from arco.core.clock import Clock, utc

Log = FilteringBoundLogger

_MOST_PLACES = 12


def make_log(stream: BinaryIO, clock: Clock, *, level: int = logging.INFO) -> Log:
    """A log that writes to `stream`, stamped by `clock`."""

    def stamp(_logger: WrappedLogger, name: str, event: EventDict) -> EventDict:
        return {"at": utc(clock.now_ms()), "level": name, **event}

    logger: Log = structlog.wrap_logger(
        structlog.BytesLogger(stream),
        processors=[stamp, _render],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        cache_logger_on_first_use=True,
    )
    return logger


def _render(_logger: WrappedLogger, _name: str, event: EventDict) -> bytes:
    return json.encode(event)


def places(error: BaseException) -> list[str]:
    """Where an error came through: files and functions, never its words."""
    frames = traceback.extract_tb(error.__traceback__)[-_MOST_PLACES:]
    return [f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in frames]


class ForeignLines(logging.Handler):
    """Takes the lines of libraries that know nothing of ours, and keeps their exceptions to types."""

    def __init__(self, log: Log) -> None:
        super().__init__(logging.INFO)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        fields: dict[str, Any] = {"logger": record.name}
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            fields |= {"error": type(error).__name__, "places": places(error)}
        self._say(record.levelno)(record.msg.strip(), **fields)

    def _say(self, level: int) -> Callable[..., Any]:
        if level >= logging.ERROR:
            return self._log.error
        return self._log.warning if level >= logging.WARNING else self._log.info
