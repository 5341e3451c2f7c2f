"""The flag that says how often few events are compacted."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from arco.core.errors import Invalid

if TYPE_CHECKING:
    from arco.compactor.pace import Pace

_LONGEST_SECONDS = 3_600


@Parameter(name="*")
@dataclass(frozen=True)
class CompactEvery:
    """The flag that says how often few events are compacted.

    Parameters
    ----------
    compact_every
        How long events wait for others before they are compacted together, while fewer than 1,000 come
        with a cycle; above that cycles are a second apart, and a backlog waits for nothing. 0 compacts at
        once. Fresh reads show events that wait.
    """

    compact_every: Annotated[float, Parameter(metavar="SECONDS")] = 5

    def pace(self) -> "Pace":
        """The pace of compaction, or `Invalid`."""
        from arco.compactor.pace import Pace

        if not 0 <= self.compact_every <= _LONGEST_SECONDS:
            raise Invalid(
                f"--compact-every takes 0 to {_LONGEST_SECONDS} seconds, not {self.compact_every:g}"
            )
        return Pace(self.compact_every * 1000)

    def arguments(self) -> list[str]:
        """The same flag for a process of ours."""
        return ["--compact-every", f"{self.compact_every:g}"]
