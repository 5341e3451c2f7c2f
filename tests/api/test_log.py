"""Log lines: JSON with a time, and never the words of an exception."""

import io
import json
import logging
import sys

from arco.api.http.telemetry import LibraryLogHandler, make_log
from arco.core.runtime import Runtime


def test_lines_are_json_with_a_time_and_a_level(runtime: Runtime) -> None:
    stream = io.BytesIO()
    make_log(stream, runtime.clock).warning("slow", ms=3)
    line = json.loads(stream.getvalue())
    assert (line["event"], line["level"], line["ms"]) == ("slow", "warning", 3)
    assert line["at"].endswith("Z")


def test_lines_below_the_level_are_not_written(runtime: Runtime) -> None:
    stream = io.BytesIO()
    log = make_log(stream, runtime.clock, level=logging.WARNING)
    log.info("chatter")
    assert stream.getvalue() == b""


def test_an_exception_of_a_library_is_told_by_its_type_and_place(runtime: Runtime) -> None:
    stream = io.BytesIO()
    handler = LibraryLogHandler(make_log(stream, runtime.clock))
    try:
        _fail()
    except ValueError:
        failed = sys.exc_info()
    said = "Exception in ASGI application\n"
    handler.emit(logging.LogRecord("uvicorn.error", logging.ERROR, "x", 1, said, None, failed))
    line = json.loads(stream.getvalue())
    assert (line["error"], line["level"]) == ("ValueError", "error")
    assert line["places"][-1].endswith(" _fail")
    assert b"secret" not in stream.getvalue()


def _fail() -> None:
    raise ValueError("the secret of /srv/lake")
