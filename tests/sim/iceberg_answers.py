"""Compares the answers to users of the Iceberg catalog with what became of their requests."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from arco.iceberg.pointer import PointerOperation
from arco.storage.chain import SHORTEST_RETENTION_MS

from .iceberg_history import IcebergHistory
from .iceberg_notes import Intent, Outcome, Reply
from .iceberg_operations import (
    Append,
    Both,
    Create,
    Drop,
    Facts,
    List,
    Load,
    Mark,
    Operation,
    Register,
    Rename,
    Undrop,
)
from .process import FURTHEST_CLOCK_MS
from .world import HOUR_MS

KEY_LIFE_MS = 5 * HOUR_MS

_NO_TABLE = "404 NoSuchTableException"
_EXISTS = "409 AlreadyExistsException"
_FAILED = "409 CommitFailedException"

Sight = dict[str, tuple[str, str]]


@dataclass(frozen=True)
class Landed:
    """An intent that has taken effect, on which table and where in the log."""

    table_id: str
    position: int


def check_replies(intent: Intent, landed: list[Landed], history: IcebergHistory) -> list[str]:
    """What is wrong with the answers to one user."""
    violations = []
    if len(landed) > 1:
        violations.append(f"{intent.name} took effect {len(landed)} times")
    outcomes = {
        reply.outcome
        for reply in intent.replies
        if reply.outcome in (Outcome.DONE, Outcome.REFUSED)
    }
    if intent.keyed and len(outcomes) > 1 and not isinstance(intent.operation, Load | List):
        violations.append(f"{intent.name} was answered differently under one key")
    violations += _late(intent, landed)
    for reply in intent.replies:
        wrong = _check_reply(intent, reply, landed, history)
        if wrong is not None:
            violations.append(f"{intent.name} {intent.operation}: {wrong}")
    return violations


def _late(intent: Intent, landed: list[Landed]) -> list[str]:
    """Nothing takes effect after it was answered; a drop's and a create's name may be tidied later."""
    answered = [reply.answered for reply in intent.replies if reply.outcome is Outcome.DONE]
    if answered and landed and landed[0].position >= min(answered):
        return [f"{intent.name} took effect after it was acknowledged"]
    return []


def _check_reply(
    intent: Intent, reply: Reply, landed: list[Landed], history: IcebergHistory
) -> str | None:
    sent = intent.sent if intent.keyed else reply.sent
    sights = history.seen(sent, reply.answered)
    lasted_ms = reply.answered_ms - reply.sent_ms
    match reply.outcome:
        case Outcome.DONE:
            return _check_done(intent.operation, reply, landed, sights, sent, history)
        case Outcome.REFUSED if landed:
            return f"refused with {reply.code}, and it took effect"
        case Outcome.REFUSED:
            if not _is_right(intent.operation, reply, sights, history):
                return f"refused with {reply.code} ({reply.detail}): at no time rightly"
        case Outcome.UNAVAILABLE if landed and not intent.keyed:
            return f"answered that it was not done ({reply.detail}), and it took effect"
        case Outcome.EXPIRED:
            age_ms = reply.answered_ms - intent.sent_ms
            if age_ms < KEY_LIFE_MS - 2 * FURTHEST_CLOCK_MS:
                return f"answered after {age_ms:.0f} ms that its key is old"
        case Outcome.CORRUPT if lasted_ms < SHORTEST_RETENTION_MS:
            return f"met {reply.detail}"
    return None


def _check_done(
    operation: Operation,
    reply: Reply,
    landed: list[Landed],
    sights: list[Sight],
    sent: int,
    history: IcebergHistory,
) -> str | None:
    match operation:
        case Load():
            if reply.location not in locations(sights, operation.name):
                return f"shown {reply.location}, which was in effect at no time"
            return None
        case List():
            return _check_list(reply, sights)
        case _ if landed:
            return _check_landed(operation, landed[0], sights, sent, history)
        case Mark() if any(
            operation.is_applied(facts) for facts in _met(history, sights, operation.name)
        ):
            return None  # there was nothing to do
    return "acknowledged, and nothing has happened"


def _check_landed(
    operation: Operation, landed: Landed, sights: list[Sight], sent: int, history: IcebergHistory
) -> str | None:
    """Whether the table that was changed had the name that was asked for."""
    if landed.position < sent:
        return "took effect before it was sent"
    if isinstance(operation, Undrop):
        back = any(operation.table_id == each for sight in sights for each, _ in sight.values())
        return None if back else "acknowledged, and the table was never there again"
    name = _name(operation)
    if isinstance(operation, Rename) and history.named(landed.position + 1).get(operation.target):
        name = operation.source  # it may have been dropped before its new name was there
    if name is None or any(sight.get(name, ("", ""))[0] == landed.table_id for sight in sights):
        return None
    return f"changed {landed.table_id}, which was never {name} meanwhile"


def _check_list(reply: Reply, sights: list[Sight]) -> str | None:
    """Each name was there at some time, and each that was there all the time is listed."""
    for name in reply.names:
        if not any(name in sight for sight in sights):
            return f"shown {name}, which was never there"
    always = set(sights[0]).intersection(*sights)
    missing = sorted(always - set(reply.names))
    return f"not shown {missing}" if missing else None


def _is_right(
    operation: Operation, reply: Reply, sights: list[Sight], history: IcebergHistory
) -> bool:
    """Whether a refusal was right at some moment between call and answer."""
    match operation:
        case Register():
            return True  # its own rules have tests of their own
        case Undrop():
            return _is_right_undrop(operation, reply, sights, history)
        case Both():
            return any(
                _is_right_part(part, reply.code, sights, history) for part in operation.parts
            )
        case Mark() | Append() | Create() | Drop() | Load():
            return _is_right_part(operation, reply.code, sights, history)
        case Rename():
            if reply.code == _NO_TABLE:
                return any(operation.source not in sight for sight in sights)
            return reply.code == _EXISTS and any(operation.target in sight for sight in sights)
    return False


def _is_right_part(
    operation: Operation, code: str, sights: Iterable[Sight], history: IcebergHistory
) -> bool:
    match operation:
        case Create():
            wanted = _EXISTS if operation.staged is None else _FAILED
            return code == wanted and any(operation.name in sight for sight in sights)
        case Append() if code == _FAILED:
            return any(
                operation.is_refused(facts) for facts in _met(history, sights, operation.name)
            )
        case Mark() | Append() | Drop() | Load():
            return code == _NO_TABLE and any(operation.name not in sight for sight in sights)
    return False


def _is_right_undrop(
    operation: Undrop, reply: Reply, sights: list[Sight], history: IcebergHistory
) -> bool:
    """Refused if it is there, if its name is another's, or if it never was."""
    if operation.table_id not in history.chains:
        return True
    if any(operation.table_id == table_id for sight in sights for table_id, _ in sight.values()):
        return True
    chain = history.chains[operation.table_id]
    if any(version.pointer.purge for version in chain):
        return True
    if any(version.pointer.operation == PointerOperation.ABANDON for version in chain):
        return True  # of an aborted transaction: the table with this uuid got another id
    if any(_is_twin(operation.table_id, sight, history) for sight in sights):
        return True
    had = {
        name
        for names in history.names
        for name, table_id in names.ids.items()
        if table_id == operation.table_id
    }
    return (
        not had or any(name in sight for name in had for sight in sights) or "long" in reply.detail
    )


def _is_twin(table_id: str, sight: Sight, history: IcebergHistory) -> bool:
    """Whether its metadata were registered as another table."""
    mine = history.facts(history.chains[table_id][0].pointer.metadata_location)
    others = [history.facts(location) for other, location in sight.values() if other != table_id]
    return mine is not None and any(each is not None and each.uuid == mine.uuid for each in others)


def _met(history: IcebergHistory, sights: Iterable[Sight], name: str) -> Iterator[Facts]:
    """The facts of the metadata that a request may have met."""
    for location in locations(sights, name):
        facts = history.facts(location)
        if facts is not None:
            yield facts


def locations(sights: Iterable[Sight], name: str) -> set[str]:
    """The metadata that a request may meet which resolves a name, then acts on the id (P32).

    The table has the name at one moment of the request, and the metadata at that one or a later one, when
    it may have another name already.
    """
    named: set[str] = set()
    met: set[str] = set()
    for sight in sights:
        if name in sight:
            named.add(sight[name][0])
        met.update(location for table_id, location in sight.values() if table_id in named)
    return met


def _name(operation: Operation) -> str | None:
    match operation:
        case Mark() | Append() | Drop() | Create() | Register():
            return operation.name
        case Rename():
            return operation.target
    return None
