"""Compares the answers to users of the catalog with what became of their requests."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from arco.core.clock import utc
from arco.storage.chain import SHORTEST_RETENTION_MS

from .catalog_history import CatalogHistory, Version
from .catalog_notes import Intent, Outcome, Reply
from .model_rows import Row, plain
from .process import FURTHEST_CLOCK_MS
from .rpc import Called
from .world import EPOCH_MS, HOUR_MS

_KEY_LIFE_MS = 5 * HOUR_MS


@dataclass(frozen=True)
class Refusal:
    """A verdict, the numbers between which it must be right, and what the time may have been."""

    intent: Intent
    code: str
    low: int
    high: int
    moments: tuple[datetime, ...]


def refusals(intents: list[Intent], history: CatalogHistory) -> list[Refusal]:
    """Every refusal; under a key only the first, since the others repeat it."""
    result = []
    for intent in intents:
        refused = [reply for reply in intent.replies if reply.outcome is Outcome.REFUSED]
        for reply in refused[:1]:
            sent = intent.sent if intent.keyed else reply.sent
            low, high = history.head_at(sent), history.head_at(reply.answered)
            result.append(Refusal(intent, reply.code, low, high, _moments(intent, reply)))
    return result


def _moments(intent: Intent, reply: Reply) -> tuple[datetime, ...]:
    if not intent.keyed:
        return tuple(utc(int(wall)) for wall in reply.walls)
    # Another server may have reached the verdict and crashed before it answered: any clock counts.
    early = EPOCH_MS + intent.sent_ms - FURTHEST_CLOCK_MS
    late = EPOCH_MS + reply.answered_ms + FURTHEST_CLOCK_MS
    return tuple(utc(int(each)) for each in (*reply.walls, early, late))


def check_replies(intent: Intent, landed: list[Version], calls: dict[str, Called]) -> list[str]:
    """What is wrong with the answers to one user."""
    name, violations = intent.name, []
    if len(landed) > 1:
        violations.append(f"{name} took effect {len(landed)} times")
    answers = {
        reply.body for reply in intent.replies if reply.outcome in (Outcome.DONE, Outcome.REFUSED)
    }
    if intent.keyed and len(answers) > 1:
        violations.append(f"{name} was answered differently under one key: {sorted(answers)}")
    for reply in intent.replies:
        violations += _check_reply(intent, reply, landed, calls)
    return violations


def _check_reply(
    intent: Intent, reply: Reply, landed: list[Version], calls: dict[str, Called]
) -> list[str]:
    name, lasted_ms = intent.name, reply.answered_ms - reply.sent_ms
    match reply.outcome:
        case Outcome.DONE if not landed:
            return [f"{name} was acknowledged and is not in the chain"]
        case Outcome.DONE if landed[0].number != reply.number:
            return [f"{name} was answered {reply.number}, and is at {landed[0].number}"]
        case Outcome.DONE if not intent.sent <= landed[0].position < reply.answered:
            return [f"{name} was acknowledged before its manifest, or landed before it was sent"]
        case Outcome.REFUSED if landed:
            return [f"{name} was refused with {reply.code} and took effect"]
        case Outcome.UNAVAILABLE if landed and not intent.keyed:
            call = calls.get(landed[0].manifest.commit_ulid)
            # A call that was delivered twice may be refused once and carried out once.
            if call is None or call.copies < 2:
                return [
                    f"{name} was answered that it was not done ({reply.detail}) and took effect"
                ]
        case Outcome.EXPIRED:
            age_ms = reply.answered_ms - intent.sent_ms
            if age_ms < _KEY_LIFE_MS - 2 * FURTHEST_CLOCK_MS:
                return [f"{name} was answered after {age_ms:.0f} ms that its key is old"]
        case Outcome.CORRUPT if lasted_ms < SHORTEST_RETENTION_MS:
            return [f"{name} met {reply.detail}"]
    return []


def same_object(answer: Row, row: Row) -> bool:
    """Whether an answer shows the object as the model has it."""
    expected: dict[str, Any] = msgspec.to_builtins(plain({**row, "_commit": None}))
    return plain({**answer, "_moved": None}) == expected
