"""Streams with segments and seals (P15, P16).

A writer appends, times out, stalls and crashes; a compactor folds; a janitor seals, by a clock
that need not agree with the writer's, and collects what was folded.
"""

from collections.abc import Iterator

from tests.models.explorer import Model
from tests.models.rules import StreamRules
from tests.models.streams_compactor import compactor, janitor
from tests.models.streams_store import (
    ABSENT,
    OPEN,
    Ledger,
    Manifest,
    Writer,
    body,
    create,
    unfolded,
)
from tests.models.streams_writer import act


class StreamModel(Model[Ledger]):
    def __init__(
        self,
        rules: StreamRules | None = None,
        events: int = 2,
        streams: int = 2,
    ) -> None:
        self.rules = rules or StreamRules()
        self.events, self.streams = events, streams

    def initial(self) -> Ledger:
        manifest = Manifest((OPEN,) * self.streams, (0,) * self.events)
        return Ledger(
            segments=((ABSENT,) * (self.events + 2),) * self.streams,
            opened=1,
            writer=Writer(),
            in_flight=frozenset(),
            manifest=manifest,
            view=None,
            aim=None,
            acked=frozenset(),
        )

    def violation(self, ledger: Ledger) -> str | None:
        waiting = set(unfolded(ledger))
        for event, folded in enumerate(ledger.manifest.rows):
            if folded > 1:
                return "an event was folded twice"
            is_recoverable = folded or body(event) in waiting or self._under_way(ledger, event)
            if event in ledger.acked and not is_recoverable:
                return "an acknowledged event is never folded"
        return None

    def _under_way(self, ledger: Ledger, event: int) -> bool:
        writing = ledger.writer.event == event and ledger.writer.doing != "done"
        return writing or bool(ledger.in_flight)

    def final(self, ledger: Ledger) -> str | None:
        if any(ledger.manifest.rows[event] != 1 for event in ledger.acked):
            return "nothing moves any more, and an acknowledged event is not folded"
        return None

    def steps(self, ledger: Ledger) -> Iterator[tuple[str, Ledger]]:
        for label, writer, result in act(self.rules, self.events, ledger):
            yield f"writer {label}", result._replace(writer=writer)
        for late_create in ledger.in_flight:
            stream, number, content = late_create
            arrived = create(ledger, stream, number, content)._replace(
                in_flight=ledger.in_flight - {late_create}
            )
            yield f"the late create of {content} at {stream}/{number} arrives", arrived
            yield (
                f"the late create of {content} is lost",
                ledger._replace(in_flight=arrived.in_flight),
            )
        yield from compactor(self.rules, ledger)
        yield from janitor(self.rules, ledger)
