"""How often and how late a failed attempt is made again."""

from dataclasses import dataclass

from arco.core.errors import Invalid
from arco.flow.define.collect import complain
from arco.flow.duration import parse_duration


@dataclass(frozen=True)
class Retry:
    """`times` more attempts: the first after `delay`, each later one `factor` times as late, up to `max`.

    `jitter` is the share by which a wait may be longer or shorter, so that many tasks do not come at once.
    """

    times: int
    delay: str = "0s"
    factor: float = 1.0
    max: str | None = None
    jitter: float = 0.0

    def __post_init__(self) -> None:
        if not _is_count(self.times):
            complain(f"retries are a number of attempts from 0 on, not {self.times!r}")
        if not _is_number(self.factor) or self.factor < 1:
            complain(f"the factor of a retry is at least 1, not {self.factor!r}")
        if not _is_number(self.jitter) or not 0 <= self.jitter <= 1:
            complain(f"the jitter of a retry is a share between 0 and 1, not {self.jitter!r}")
        duration_ms(self.delay, "the delay of a retry")
        duration_ms(self.max, "the longest delay of a retry")

    @property
    def delay_ms(self) -> int:
        """The wait before the first repetition."""
        return parse_duration(self.delay)

    @property
    def max_ms(self) -> int | None:
        """The longest wait, if there is a limit."""
        return None if self.max is None else parse_duration(self.max)


def retry_of(asked: object) -> Retry:
    """What was asked for as `retries`: a number of times, or a `Retry`."""
    if isinstance(asked, Retry):
        return asked
    if not isinstance(asked, int) or not _is_count(asked):
        complain(f"retries are a number or Retry(3, delay='30s'), not {asked!r}")
        return NO_RETRY
    return Retry(asked)


def duration_ms(text: str | None, what: str) -> int | None:
    """The milliseconds of a duration; a wrong one is complained of."""
    if text is None:
        return None
    try:
        return parse_duration(text)
    except Invalid as wrong:
        complain(f"{what} is not valid: {wrong}")
        return None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


NO_RETRY = Retry(0)
