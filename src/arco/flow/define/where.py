"""Where something was declared, so that a message can name a file and a line of it."""

import inspect
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

_HERE = str(Path(__file__).parent)


@dataclass(frozen=True, order=True)
class SourceLine:
    """A line of a file; the file is relative to its project, so that it reads alike everywhere."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


NOWHERE = SourceLine("", 0)


def caller(folder: Path | None) -> SourceLine:
    """The line that called into this room: the innermost one below `folder`, if that is given."""
    frame = inspect.currentframe()
    while frame is not None and not _is_outside(frame, folder):
        frame = frame.f_back
    if frame is None:
        return NOWHERE
    return SourceLine(relative_file(frame.f_code.co_filename, folder), frame.f_lineno)


def raised_at(failure: BaseException, folder: Path) -> SourceLine | None:
    """The innermost line below `folder` that led to an error."""
    for frame in reversed(traceback.extract_tb(failure.__traceback__)):
        if Path(frame.filename).is_relative_to(folder):
            return SourceLine(relative_file(frame.filename, folder), frame.lineno or 0)
    return None


def relative_file(file: str, folder: Path | None) -> str:
    """`file` as a person in `folder` would write it, with slashes."""
    path = Path(file)
    if folder is not None and path.is_relative_to(folder):
        path = path.relative_to(folder)
    return path.as_posix()


def _is_outside(frame: FrameType, folder: Path | None) -> bool:
    file = frame.f_code.co_filename
    if folder is not None:
        return Path(file).is_relative_to(folder)
    return not file.startswith(_HERE)
