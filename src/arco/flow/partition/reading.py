"""A reading: an asset and one of its inputs at a moment, which is all that decides who reads what."""

from dataclasses import dataclass, field
from datetime import datetime

from arco.flow.partition.dimension import Known
from arco.flow.partition.product import Partitions


@dataclass(frozen=True)
class Reading:
    """How an asset is cut (`of`), how its input is (`reads`), and which partitions of both there are."""

    of: Partitions
    reads: Partitions
    now: datetime
    dynamic: Known = field(default_factory=dict)
