"""The auditor of the Iceberg catalog: chains and transactions by their rules, answers by what was seen.

Every version is what one request makes of the version before it, so nothing is lost and nothing is there
that no user asked for. What was acknowledged has taken effect once, between its call and its answer. What
was refused never has, and was rightly refused at some moment between. What is unknown has at most once.
"""

from collections import Counter
from itertools import pairwise

from .iceberg_answers import Landed, check_replies
from .iceberg_history import IcebergHistory, Version
from .iceberg_notes import IcebergNotes, Intent
from .iceberg_operations import Append, Both, Drop, Mark, Operation, Rename, Undrop
from .objects import SimObjects


class IcebergAudit:
    """One run's judgement."""

    def __init__(self, objects: SimObjects, notes: IcebergNotes) -> None:
        self._notes = notes
        self._history = IcebergHistory(objects)
        self._wrong = self._history.wrong
        self._intents = {intent.actor: intent for intent in notes.intents}
        self.tally: Counter[str] = Counter()

    def violations(self) -> list[str]:
        """Everything that is wrong, in a stable order."""
        self._wrong += self._notes.complaints
        if not self._notes.finished:
            self._say("not everything was over in the calm at the end")
        for chain in self._history.chains.values():
            for version in chain:
                self._check_version(chain, version)
        self._check_transactions()
        self._check_names()
        self._check_files()
        if self._notes.finished:
            self._check_aftermath()
        for intent in self._notes.intents:
            landed = self._landed(intent)
            self.tally["took effect"] += bool(landed)
            self._wrong += check_replies(intent, landed, self._history)
        return self._wrong

    # chains

    def _check_version(self, chain: list[Version], version: Version) -> None:
        """A version follows from the one before it by what its author asked for."""
        before = chain[version.number - 1] if version.number else None
        was = None if before is None else self._history.effect(before, version.position)
        self.tally["versions"] += 1
        if before is not None and self._is_undecided(before, version.position):
            self._say(f"{_name(version)} was made on an undecided head")
        pointer = version.pointer
        if pointer.operation == "undrop":
            self._check_undrop(version, before)
            return
        if before is not None and before.is_tombstone:
            self._say(f"{_name(version)} was made on a tombstone")
            return
        if version.is_tombstone:
            if pointer.operation != "bury" and pointer.metadata_location != was:
                self._say(f"{_name(version)} ends {pointer.metadata_location}, and it was at {was}")
            return
        if pointer.previous_location != was:
            previous = pointer.previous_location
            self._say(
                f"{_name(version)} says that {previous} was in effect before, and it was {was}"
            )
        self._check_change(version, was)

    def _check_undrop(self, version: Version, before: Version | None) -> None:
        """It goes on with what was dropped; or, after an undrop that got no name, with what is there."""
        was = None
        if before is not None and before.is_tombstone:
            was = before.pointer.metadata_location
        elif before is not None:
            was = self._history.effect(before, version.position)
        if was != version.pointer.metadata_location:
            self._say(f"{_name(version)} brings back something else than was dropped")

    def _check_change(self, version: Version, was: str | None) -> None:
        pointer = version.pointer
        intent = self._intents.get(pointer.actor)
        after = self._history.facts(pointer.metadata_location)
        if intent is None:
            self._say(f"no user asked for {_name(version)}")
            return
        if after is None:
            if self._counts_from(version) is not None:
                self._say(f"{_name(version)} names {pointer.metadata_location}, which never was")
            return
        if was is None:
            if version.number:
                self._say(f"{_name(version)} was made on no table")
            return
        before = self._history.facts(was)
        parts = _parts(intent.operation)
        if before is None or not any(
            isinstance(part, Mark | Append) and part.fits(before, after) for part in parts
        ):
            self._say(f"{_name(version)} is not what {intent.name} makes of {before}: {after}")

    def _is_undecided(self, version: Version, length: int) -> bool:
        transaction = version.pointer.transaction
        if transaction is None or version.is_tombstone:
            return False
        decision = self._history.decisions.get(transaction)
        return decision is None or decision.position >= length

    # transactions

    def _check_transactions(self) -> None:
        """A committed transaction had all its pointers before it was committed, and each once."""
        members: dict[str, list[Version]] = {}
        for chain in self._history.chains.values():
            for version in chain:
                if version.pointer.transaction is not None and not version.is_tombstone:
                    members.setdefault(version.pointer.transaction, []).append(version)
        for transaction, decision in self._history.decisions.items():
            self.tally["transactions committed" if decision.committed else "aborted"] += 1
            if decision.committed:
                self._check_members(transaction, decision.position, members.get(transaction, []))

    def _check_members(self, transaction: str, decided: int, versions: list[Version]) -> None:
        if not versions:
            self._say(f"transaction {transaction} was committed with nothing in it")
            return
        intent = self._intents.get(versions[0].pointer.actor)
        wanted = len(_parts(intent.operation)) if intent is not None else 0
        tables = {version.table_id for version in versions}
        if len(tables) != wanted or len(versions) != wanted:
            self._say(f"transaction {transaction} has changed {len(tables)} of {wanted} tables")
        if any(version.position > decided for version in versions):
            self._say(f"transaction {transaction} was committed before all of it was there")
        if any(
            version.pointer.request_id != versions[0].pointer.request_id for version in versions
        ):
            self._say(f"transaction {transaction} is of two requests")

    # names

    def _check_names(self) -> None:
        """A name goes only after the table that was born under it has ended."""
        for before, after in pairwise(self._history.names):
            for table_id in before.born.keys() - after.born.keys():
                chain = self._history.chains.get(table_id, [])
                if not any(
                    each.is_tombstone
                    and each.number > before.born[table_id]
                    and each.position < after.position
                    for each in chain
                ):
                    self._say(f"the name of {table_id} was released, and it had not ended")

    # files

    def _check_files(self) -> None:
        """What a version names was there before it counted, and stays."""
        history = self._history
        for chain in history.chains.values():
            for version in chain:
                location = version.pointer.metadata_location
                counts = self._counts_from(version)
                if counts is None:
                    continue  # a table that no reader has ever seen
                if self._was_lost(version):
                    self._say(f"{location} was deleted, which {_name(version)} names")
                if location not in history.made or history.made[location] > counts:
                    self._say(f"{_name(version)} counted before {location} was there")

    def _was_lost(self, version: Version) -> bool:
        """Whether a file that counted was deleted, though its table was not dropped for good."""
        position = self._history.deleted.get(version.pointer.metadata_location)
        if position is None or self._is_aborted(version):
            return False
        # One that was registered shares its files with the table that they were made for.
        return not any(
            _was_purged(other, position) and _home(other[-1]) == _home(version)
            for other in self._history.chains.values()
        )

    def _is_aborted(self, version: Version) -> bool:
        transaction = version.pointer.transaction
        if transaction is None or version.is_tombstone:
            return False
        decision = self._history.decisions.get(transaction)
        return decision is not None and not decision.committed

    def _counts_from(self, version: Version) -> int | None:
        """From where in the log a version can be seen; a first one only by its name."""
        if version.pointer.operation == "bury":
            return None  # it ends what never was
        if version.number:
            return version.position
        if version.pointer.transaction is None:
            return self._first_named(version.table_id)
        decision = self._history.decisions.get(version.pointer.transaction)
        return decision.position if decision is not None and decision.committed else None

    def _first_named(self, table_id: str) -> int | None:
        for names in self._history.names:
            if table_id in names.ids.values():
                return names.position
        return None

    # what follows

    def _check_aftermath(self) -> None:
        """In the end every version that counted is reported, and no name leads to a dead chain."""
        history, end = self._history, 10**9
        for chain in history.chains.values():
            for version in chain:
                key = f"{version.table_id}:{version.number}".encode()
                if self._is_aborted(version):
                    if key in history.reported:
                        self._say(f"{_name(version)} was reported, and never counted")
                elif key not in history.reported and self._is_recalled(version):
                    self._say(f"{_name(version)} was never reported")
        for name, table_id in history.named(end).items():
            if history.effective(table_id, end) is None:
                self._say(f"{name} still leads to {table_id}, which is gone")

    def _is_recalled(self, version: Version) -> bool:
        """Whether the reconciler finds it: its table has, or had, a name, and its number is kept."""
        is_kept = version.number >= self._history.floor(version.table_id)
        return is_kept and self._first_named(version.table_id) is not None

    # what people asked for

    def _landed(self, intent: Intent) -> list[Landed]:
        """How often an intent has taken effect, and where."""
        match intent.operation:
            case Both():
                return self._committed(intent)
            case Rename() | Undrop():
                operations = [
                    each for each in self._history.operations if each.actor == intent.actor
                ]
                return [Landed(each.table_id, each.position) for each in operations]
            case Drop():
                return [
                    Landed(each.table_id, each.position)
                    for each in self._versions(intent)
                    if each.is_tombstone
                ]
            case Mark() | Append():
                return [Landed(each.table_id, each.position) for each in self._versions(intent)]
            case _:
                return self._born(intent)

    def _committed(self, intent: Intent) -> list[Landed]:
        transactions = {
            each.pointer.transaction: each.table_id
            for each in self._versions(intent)
            if each.pointer.transaction is not None
        }
        decisions = self._history.decisions
        return [
            Landed(table_id, decisions[each].position)
            for each, table_id in transactions.items()
            if each in decisions and decisions[each].committed
        ]

    def _born(self, intent: Intent) -> list[Landed]:
        """A table that was made counts from its name on."""
        operations = [each for each in self._history.operations if each.actor == intent.actor]
        return [Landed(each.table_id, each.position) for each in operations]

    def _versions(self, intent: Intent) -> list[Version]:
        return [
            version
            for chain in self._history.chains.values()
            for version in chain
            if version.pointer.actor == intent.actor
        ]

    def _say(self, what: str) -> None:
        self._wrong.append(what)


def _parts(operation: Operation) -> tuple[Operation, ...]:
    return operation.parts if isinstance(operation, Both) else (operation,)


def _was_purged(chain: list[Version], length: int) -> bool:
    last = next((each for each in reversed(chain) if each.position < length), None)
    return last is not None and last.is_tombstone and last.pointer.purge


def _home(version: Version) -> str:
    return version.pointer.metadata_location.rpartition("/metadata/")[0]


def _name(version: Version) -> str:
    author = version.pointer.actor
    return (
        f"number {version.number} of {version.table_id} ({version.pointer.operation} by {author})"
    )
