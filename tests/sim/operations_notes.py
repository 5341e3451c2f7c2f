"""What the auditor of Tier 2 needs besides the log of the store."""

from dataclasses import dataclass, field

from arco.ledger.writer import AppendReceipt


@dataclass
class Told:
    """Lines that a user sent, and where they were told these are."""

    domain: str
    lines: list[bytes]
    receipt: AppendReceipt


@dataclass
class OperationsNotes:
    """What was acknowledged, and what the processes have complained of."""

    told: list[Told] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    senders: int = 0  # that are not done yet
    caught_up: bool = False
