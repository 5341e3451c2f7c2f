"""What the auditor of Tier 2 needs besides the log of the store."""

from dataclasses import dataclass, field

from arco.ledger.writer import AppendReceipt


@dataclass
class Acknowledged:
    """Lines that a user sent, and the receipt."""

    domain: str
    lines: list[bytes]
    receipt: AppendReceipt


@dataclass
class OperationsNotes:
    """What was acknowledged, and what the processes have complained of."""

    acknowledged: list[Acknowledged] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    senders: int = 0  # that are not done yet
    caught_up: bool = False
