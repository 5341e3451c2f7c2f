"""What is wrong with a project, said where it is wrong."""

from dataclasses import dataclass

from arco.flow.define.where import SourceLine


@dataclass(frozen=True, order=True)
class Problem:
    """One thing to correct; the file is relative to the project's folder, line 0 is the whole file."""

    file: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.message}"


def problem_at(where: SourceLine, message: str) -> Problem:
    """The problem with `message` at a line."""
    return Problem(where.file, where.line, message)
