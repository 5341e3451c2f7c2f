"""The next step that an error suggests to a person who runs Arco on this machine."""

import pytest

from arco.core.errors import (
    AlreadyExists,
    ArcoError,
    Denied,
    NotEmpty,
    StoreReadOnly,
    Unauthenticated,
    Unavailable,
)
from arco.server.finding import next_step


@pytest.mark.parametrize(
    ("problem", "step"),
    [
        (AlreadyExists("x"), "Choose another name"),
        (Denied("x"), "arco iam render"),
        (Unauthenticated("x"), "arco token mint"),  # not the step of its parent, Denied
        (NotEmpty("x"), "Drop what it holds first"),  # nor that of Conflict
        (StoreReadOnly("x"), "--root"),
        (Unavailable("x"), "Check the address"),
    ],
)
def test_the_closest_class_gives_the_step(problem: ArcoError, step: str) -> None:
    assert step in next_step(problem)


def test_notes_replace_the_step_of_the_class() -> None:
    problem = Denied("x")
    problem.add_note("Ask Ana.")
    assert next_step(problem) == "Ask Ana."
