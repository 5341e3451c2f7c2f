"""What a book of runs hears of an attempt, however odd its words are, and however deaf the book is."""

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

from arco.core.errors import ArcoError, Invalid, NotFound, Unavailable
from arco.events.table import ColumnProfile
from arco.flow.run.wire import (
    Beat,
    CheckOutcome,
    Completed,
    Leased,
    Offer,
    Outcome,
    OutputDone,
    Progress,
    Pulse,
    TaskStatus,
)
from arco.flow.work.said import MOST_SENT_CHARS, Said
from arco.flow.work.telling import Telling
from tests.flow.work.leased import TASK
from tests.ledger.simulated import Calm, simulate

CHECK = CheckOutcome(
    table="t", table_id="id", name="few", type="ROW_COUNT", severity="error", passed=True
)


class Ear:
    """A book of runs that takes what JSON can carry; `refuses` may have it refuse more."""

    def __init__(
        self, refuses: Callable[[Beat | Completed], ArcoError | None] = lambda _: None
    ) -> None:
        self._refuses = refuses
        self.beats: list[Beat] = []
        self.ends: list[Completed] = []
        self.parts: dict[int, str] = {}

    async def lease(self, offer: Offer) -> Leased:
        raise NotImplementedError

    async def watch(
        self, worker: str, attempt_ids: tuple[str, ...], wait_ms: int = 0
    ) -> tuple[str, ...]:
        raise NotImplementedError

    async def beat(self, beat: Beat) -> Pulse:
        self._hear(beat)
        self.beats.append(beat)
        return Pulse(lease_until_ms=0)

    async def complete(self, completed: Completed) -> None:
        self._hear(completed)
        self.ends.append(completed)

    @property
    def log(self) -> str:
        return "".join(self.parts[number] for number in range(len(self.parts)))

    def _hear(self, word: Beat | Completed) -> None:
        msgspec.json.encode(word)
        if (refusal := self._refuses(word)) is not None:
            raise refusal
        if word.log_part is not None:
            self.parts.setdefault(word.log_part, word.log)


def _tell(ear: Ear, story: Callable[[Telling, Said], Any]) -> None:
    async def told(calm: Calm) -> None:
        said = Said()
        await story(Telling(ear, calm.runtime, "w", TASK, said), said)

    simulate(told)


def test_a_beat_that_nobody_can_send_is_a_sign_of_life_all_the_same() -> None:
    async def story(telling: Telling, said: Said) -> None:
        said.log("one")
        said.progress(Progress(phase="writing", done=np.float32(0.5)))  # type: ignore[arg-type]
        await telling.beat()
        said.log("two")
        said.progress(Progress(phase="writing"))
        for _ in range(2):
            await telling.beat()

    ear = Ear()
    _tell(ear, story)
    assert len(ear.beats) == 3
    lost, kept = ear.log.splitlines()
    assert (lost[:35], kept) == ("... 4 characters were left out: Typ", "two")


def test_the_end_of_a_long_log_is_why_it_failed() -> None:
    lines = [f"{number:06d} " + "x" * 93 for number in range(3 * MOST_SENT_CHARS // 100)]

    async def story(telling: Telling, said: Said) -> None:
        for line in lines:
            said.log(line)
        assert await telling.end(Outcome(status=TaskStatus.FAILED, error="ValueError: why"))

    ear = Ear()
    _tell(ear, story)
    assert ear.log.splitlines() == [*lines, "ValueError: why"]


def test_lines_whose_beat_was_not_answered_are_told_with_the_end() -> None:
    is_deaf = True

    async def story(telling: Telling, said: Said) -> None:
        nonlocal is_deaf
        said.log("one")
        try:
            await telling.beat()
        except Unavailable:
            is_deaf = False
        said.log("two")
        await telling.end(Outcome(status=TaskStatus.BLOCKED, error="a check failed"))

    ear = Ear(lambda _: Unavailable("away") if is_deaf else None)
    _tell(ear, story)
    assert ear.log == "one\ntwo\na check failed\n"


def test_a_book_that_takes_no_more_lines_hears_the_end() -> None:
    async def story(telling: Telling, said: Said) -> None:
        said.log("x" * MOST_SENT_CHARS)
        assert await telling.end(Outcome(status=TaskStatus.SUCCESS))

    ear = Ear(lambda word: NotFound("nobody") if isinstance(word, Beat) else None)
    _tell(ear, story)
    assert [each.outcome.status for each in ear.ends] == ["SUCCESS"]


def test_that_not_all_was_told_is_said_in_the_log() -> None:
    output = OutputDone(table="t", table_id="id", partition="", version=7)
    outcome = Outcome(
        status=TaskStatus.SUCCESS,
        outputs=(msgspec.structs.replace(output, columns=(ColumnProfile(column_id="a"),)),),
        checks=(CHECK,),
        metrics={"m": 1.0},
    )

    def refuses(word: Beat | Completed) -> ArcoError | None:
        is_odd = isinstance(word, Completed) and bool(word.outcome.metrics)
        return Invalid("such metrics are not for me") if is_odd else None

    async def story(telling: Telling, said: Said) -> None:
        said.log("one")
        assert await telling.end(outcome)

    ear = Ear(refuses)
    _tell(ear, story)
    [end] = ear.ends
    assert end.outcome == Outcome(status=TaskStatus.SUCCESS, outputs=(output,))
    first, notice = ear.log.splitlines()
    assert (first, "lineage, metrics" in notice) == ("one", True)
    assert notice.endswith("Invalid: such metrics are not for me")
