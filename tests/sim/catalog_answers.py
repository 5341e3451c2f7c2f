"""What users of the catalog were told, against what became of their requests."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from arco.core.clock import utc
from arco.storage.chain import SHORTEST_RETENTION_MS

from .catalog_history import CatalogHistory, Version
from .catalog_notes import Reply, Told, Wish
from .model_rows import Row, plain
from .process import FURTHEST_CLOCK_MS
from .rpc import Called
from .world import EPOCH_MS, HOUR_MS

_KEY_LIFE_MS = 5 * HOUR_MS


@dataclass(frozen=True)
class Refusal:
    """A verdict, the numbers between which it must be right, and what the time may have been."""

    wish: Wish
    code: str
    low: int
    high: int
    moments: tuple[datetime, ...]


def refusals(wishes: list[Wish], history: CatalogHistory) -> list[Refusal]:
    """Every refusal; under a key the first that was told, since it is only repeated."""
    found = []
    for wish in wishes:
        told = [reply for reply in wish.replies if reply.told is Told.REFUSED]
        for reply in told[:1]:
            sent = wish.sent if wish.keyed else reply.sent
            low, high = history.head_at(sent), history.head_at(reply.answered)
            found.append(Refusal(wish, reply.code, low, high, _moments(wish, reply)))
    return found


def _moments(wish: Wish, reply: Reply) -> tuple[datetime, ...]:
    if not wish.keyed:
        return tuple(utc(int(wall)) for wall in reply.walls)
    # The verdict may have been found by a server that never told it: its clock is anybody's.
    early = EPOCH_MS + wish.sent_ms - FURTHEST_CLOCK_MS
    late = EPOCH_MS + reply.answered_ms + FURTHEST_CLOCK_MS
    return tuple(utc(int(each)) for each in (*reply.walls, early, late))


def check_replies(wish: Wish, landed: list[Version], calls: dict[str, Called]) -> list[str]:
    """What is wrong with what one user was told."""
    name, found = wish.name, []
    if len(landed) > 1:
        found.append(f"{name} took effect {len(landed)} times")
    said = {reply.body for reply in wish.replies if reply.told in (Told.DONE, Told.REFUSED)}
    if wish.keyed and len(said) > 1:
        found.append(f"{name} was answered differently under one key: {sorted(said)}")
    for reply in wish.replies:
        found += _check_reply(wish, reply, landed, calls)
    return found


def _check_reply(
    wish: Wish, reply: Reply, landed: list[Version], calls: dict[str, Called]
) -> list[str]:
    name, lasted_ms = wish.name, reply.answered_ms - reply.sent_ms
    match reply.told:
        case Told.DONE if not landed:
            return [f"{name} was acknowledged and is not in the chain"]
        case Told.DONE if landed[0].number != reply.number:
            return [f"{name} was told {reply.number}, and is at {landed[0].number}"]
        case Told.DONE if not wish.sent <= landed[0].position < reply.answered:
            return [f"{name} was acknowledged before its manifest, or landed before it was sent"]
        case Told.REFUSED if landed:
            return [f"{name} was refused with {reply.code} and took effect"]
        case Told.UNAVAILABLE if landed and not wish.keyed:
            call = calls.get(landed[0].manifest.commit_ulid)
            # A call that was delivered twice may be refused once and carried out once.
            if call is None or call.copies < 2:
                return [f"{name} was told that it was not done ({reply.detail}) and took effect"]
        case Told.EXPIRED:
            age_ms = reply.answered_ms - wish.sent_ms
            if age_ms < _KEY_LIFE_MS - 2 * FURTHEST_CLOCK_MS:
                return [f"{name} was told after {age_ms:.0f} ms that its key is old"]
        case Told.CORRUPT if lasted_ms < SHORTEST_RETENTION_MS:
            return [f"{name} met {reply.detail}"]
    return []


def same_object(told: Row, row: Row) -> bool:
    """Whether an answer shows the object as the model has it."""
    expected: dict[str, Any] = msgspec.to_builtins(plain({**row, "_commit": None}))
    return plain({**told, "_moved": None}) == expected
