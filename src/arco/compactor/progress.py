"""A meter: how far a long piece of work is. What there is to do becomes clear only on the way."""

from collections.abc import Callable

Progress = Callable[[int, int], None]  # so many done, of so many known of


class ProgressCounter:
    """Counts, and tells whoever wants to know."""

    def __init__(self, tell: Progress | None) -> None:
        self._tell = tell
        self._done = 0
        self._total = 0

    def expect(self, more: int) -> None:
        """There is so much more to do."""
        self._total += more
        self._say()

    def step(self) -> None:
        """One more is done."""
        self._done += 1
        self._say()

    def _say(self) -> None:
        if self._tell is not None:
            self._tell(self._done, self._total)
