"""What an inspection has found in one domain: figures, what was repaired, and what is still wrong."""

from enum import StrEnum

import msgspec

from arco.compactor.sweep import Pile


class TroubleKind(StrEnum):
    """What kind of thing is wrong."""

    CHAIN = "chain"  # a number of manifests, slots or floors
    SEGMENT = "segment"  # of the ledger: lost
    STREAM = "stream"  # that nobody folds
    SEAL = "seal"
    WATERMARK = "watermark"
    FILE = "file"
    LAG = "lag"


class Trouble(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is not repaired by itself, by its path in the workspace."""

    kind: TroubleKind
    path: str
    explanation: str
    next_step: str


class Inspection(msgspec.Struct, frozen=True, kw_only=True):
    """One domain, as far as it could be looked at."""

    domain: str
    head: int  # -1 if nothing was published yet
    streams: int = 0  # that are open
    segments: int = 0  # that are there
    waiting: int = 0  # segments with events that are not published yet
    waiting_bytes: int = 0
    lag_ms: int | None = None  # how long the oldest of them has waited
    files: int = 0  # that kept manifests name
    orphans: Pile = msgspec.field(
        default_factory=Pile
    )  # files that nobody names: for the collection
    sealed: tuple[str, ...] = ()  # streams that were ended
    hints: tuple[str, ...] = ()  # that were written anew
    troubles: tuple[Trouble, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nobody has to do anything."""
        return not self.troubles
