"""The auditor of the catalog: the model decides everything again, in the order of the commits.

What was acknowledged is in the chain once and as it was answered; what was refused is not, and was refused
rightly in some state between its call and its answer; what is unknown is there at most once. The files at
each number, the events that its commits name and the model all say the same.
"""

from collections import Counter
from datetime import timedelta
from itertools import pairwise

import msgspec

from arco.catalog.change import DEFAULT_CATALOG, SYSTEM
from arco.catalog.ddl import CreateCatalog, Ddl
from arco.catalog.manifest import CommitKind, CommitOperation
from arco.core.clock import utc

from .catalog_answers import Refusal, check_replies, refusals, same_object
from .catalog_files import State, lay, rows_of, unversioned
from .catalog_history import CatalogHistory, Version
from .catalog_model import Model
from .catalog_notes import CatalogNotes, Intent
from .model_rows import Refused, plain
from .objects import SimObjects
from .process import FURTHEST_CLOCK_MS
from .rpc import Called
from .world import EPOCH_MS


class CatalogAudit:
    """One run's judgement."""

    def __init__(
        self,
        objects: SimObjects,
        notes: CatalogNotes,
        calls: dict[str, Called],
        retention: timedelta,
    ) -> None:
        self._notes = notes
        self._calls = calls
        self._history = CatalogHistory(objects)
        self._model = Model(retention)
        self._state: State = {}
        self._orders: dict[tuple[str, tuple[object, ...]], tuple[int, int]] = {}
        self._rebuilt: State = {}
        self._intents = {intent.actor: intent for intent in notes.intents}
        self._versions_by_actor: dict[str, list[Version]] = {}  # by actor
        self._open: list[Refusal] = refusals(notes.intents, self._history)
        self._wrong = self._history.wrong
        self.tally: Counter[str] = Counter()

    def violations(self) -> list[str]:
        """Everything that is wrong, in a stable order."""
        self._wrong += self._notes.complaints
        if not self._notes.finished:
            self._say("not everything was over in the calm at the end")
        self._check_chain()
        self._judge_refusals(-1, is_complete=True)
        for version in self._history.versions:
            self._replay(version)
            self._judge_refusals(version.number, is_complete=True)
            self._check_sightings(version)
        for refusal in self._open:
            self._say(f"{refusal.intent.name} was refused with {refusal.code}: at no time rightly")
        for intent in self._notes.intents:
            landed = self._versions_by_actor.get(intent.actor, [])
            self._wrong += check_replies(intent, landed, self._calls)
        return self._wrong

    # the chain

    def _check_chain(self) -> None:
        requests = Counter(
            request for version in self._history.versions for request in version.manifest.requests
        )
        for request, times in requests.items():
            if times > 1:
                self._say(f"request {request} was carried out {times} times")
        for version in self._history.versions:
            self._check_commit(version)
        for parent, child in pairwise(self._history.versions):
            self._check_step(parent, child)

    def _check_commit(self, version: Version) -> None:
        commit, manifest = version.commit, version.manifest
        if (commit.number, commit.commit_ulid) != (version.number, manifest.commit_ulid):
            self._say(f"the commit record of {version.number} speaks of {commit.number}")
        if tuple(operation.request_id for operation in commit.operations) != manifest.requests:
            self._say(f"manifest {version.number} and its commit name different requests")

    def _check_step(self, parent: Version, child: Version) -> None:
        old, new = parent.manifest, child.manifest
        if child.commit.parent != old.commit:
            self._say(f"commit {child.number} does not name its parent")
        if new.fencing_token < old.fencing_token:
            self._say(f"the fencing token fell to {new.fencing_token} at {child.number}")
        if (old.orphans_before or "") > (new.orphans_before or ""):
            self._say(f"the mark of orphans was lowered at {child.number}")
        called = self._calls.get(new.commit_ulid)
        if called is None:
            return
        if called.fencing_token < old.fencing_token:
            self._say(f"{child.number} was published with the stale token {called.fencing_token}")
        passed_ms = self._history.epochs_ms.get(called.fencing_token + 1)
        if passed_ms is not None and passed_ms < min(called.deliveries_ms, default=0.0):
            self._say(f"{child.number} was published after token {called.fencing_token} was passed")
        if old.rows_changed_at > called.base_manifest:
            self._say(f"{child.number} was published on other rows than it was decided on")

    # replaying

    def _replay(self, version: Version) -> None:
        before = dict(self._state)
        self.tally[f"{version.commit.kind.value} commits"] += 1
        self.tally["shared commits"] += len(version.commit.operations) > 1
        if version.commit.kind is CommitKind.DDL:
            for position, operation in enumerate(version.commit.operations):
                self._carry_out(version, operation)
                if position < len(version.commit.operations) - 1:
                    self._judge_refusals(version.number, is_complete=False)
        self._read_files(version)
        if version.commit.kind is CommitKind.MERGE:
            self._forget(version, before)
        self._compare(version)
        changed = _visible(self._state) != _visible(before)
        recorded = version.manifest.rows_changed_at == version.number
        if changed and not recorded:
            self._say(f"{version.number} changed rows and does not say so")

    def _carry_out(self, version: Version, operation: CommitOperation) -> None:
        intent = self._intents.get(operation.actor)
        request: Ddl = CreateCatalog(name=DEFAULT_CATALOG) if intent is None else intent.request
        if intent is None and operation.actor != SYSTEM:
            self._say(f"no user asked for {operation}")
        self._versions_by_actor.setdefault(operation.actor, []).append(version)
        for key, row in rows_of(self._history.bodies, operation):
            self._rebuilt[key] = {**row, "_commit": version.number}
        try:
            row = self._model.carry_out(
                request,
                actor=operation.actor,
                at=operation.at,
                new_id=operation.object_id,
                number=version.number,
            )
        except Refused as refused:
            self._say(
                f"{operation.actor} was carried out at {version.number}: {refused.code} was right"
            )
            return
        if intent is not None:
            self._check_answer(intent, row)

    def _check_answer(self, intent: Intent, row: dict[str, object]) -> None:
        columns = self._model.live_columns(str(row["table_id"])) if "table_id" in row else []
        for reply in intent.replies:
            if reply.body and reply.number >= 0:
                answer = msgspec.json.decode(reply.body)
                names = [column["name"] for column in columns]
                if not same_object(answer["object"], row) or names != [
                    column["name"] for column in answer["columns"]
                ]:
                    self._say(
                        f"{intent.name} was answered {answer['object']}, and it is {plain(row)}"
                    )

    def _read_files(self, version: Version) -> None:
        """The state as the files at a number have it; of a commit only the new ones are read."""
        number, manifest = version.number, version.manifest
        parent = self._history.versions[number - 1].manifest if number else None
        if parent is not None and version.commit.kind is not CommitKind.MERGE:
            if manifest.base != parent.base:
                self._say(f"{number} has another base than its parent, and is no merge")
            old = {ref.path for files in parent.tail.values() for ref in files}
            new = {ref.path for files in manifest.tail.values() for ref in files}
            if not old <= new:
                self._say(f"{number} has lost files of its parent")
            fresh = [each for each in self._history.files(manifest) if each[1].path not in old]
            fresh = [each for each in fresh if each[1].path in new]
        else:
            fresh = self._history.files(manifest)
            self._state, self._orders = {}, {}
        for table, ref in fresh:
            if ref.path in self._history.bodies:
                lay(self._state, self._orders, table, self._history.bodies[ref.path])

    def _forget(self, version: Version, before: State) -> None:
        """Let the model forget what a merge has left out, if it was time for that."""
        forgotten_keys = before.keys() - self._state.keys()
        ids = {
            str(key[-1])
            for table, key in forgotten_keys
            if table in ("catalogs", "schemas", "tables", "columns")
            and not before[table, key].get("_moved")
        }
        latest = utc(int(EPOCH_MS + version.at_ms + FURTHEST_CLOCK_MS))
        roots = set()
        for each in sorted(ids):
            dropped = self._model.dropped_at(each)
            if dropped is not None:
                roots.add(each)
                if dropped > latest - self._model.retention:
                    self._say(f"{version.number} has forgotten {each} too early")
        self._model.forget(roots)
        self.tally["forgotten"] += len(roots)
        for key in forgotten_keys:
            self._rebuilt.pop(key, None)

    def _compare(self, version: Version) -> None:
        if self._state != self._rebuilt:
            self._say(f"{version.number}: files are not events: {_odd(self._state, self._rebuilt)}")
        modelled = {key: plain(row) for key, row in self._model.state().items()}
        filed = {key: unversioned(row) for key, row in _visible(self._state).items()}
        if filed != modelled:
            self._say(f"{version.number}: files are not as decided: {_odd(filed, modelled)}")

    # what people saw

    def _judge_refusals(self, number: int, *, is_complete: bool) -> None:
        """Strike out the refusals that are right in the state of now."""
        left = []
        for refusal in self._open:
            now = (
                refusal.low <= number <= refusal.high
                if is_complete
                else (refusal.low < number <= refusal.high)
            )
            right = now and any(
                self._model.verdict(refusal.intent.request, actor=refusal.intent.actor, at=at)
                == refusal.code
                for at in refusal.moments
            )
            if not right:
                left.append(refusal)
        self._open = left

    def _check_sightings(self, version: Version) -> None:
        for seen in self._notes.sightings:
            if seen.number != version.number:
                continue
            low, high = self._history.head_at(seen.sent), self._history.head_at(seen.answered)
            if not low <= seen.number <= high:
                self._say(f"{seen.reader} was shown {seen.number}, it was {low} to {high}")
            if seen.sha256 != version.entry.sha256():
                self._say(f"{seen.reader} was shown a dead number {seen.number}")
            if seen.live != self._model.live():
                odd = sorted(set(seen.live) ^ set(self._model.live()))
                self._say(f"{seen.reader} saw a torn state of {seen.number}: {odd}")

    def _say(self, what: str) -> None:
        self._wrong.append(what)


def _visible(state: State) -> State:
    """Without the marks that moved tables leave behind: no reader sees them."""
    return {key: row for key, row in state.items() if not row.get("_moved")}


def _odd(one: State, other: State) -> str:
    keys = sorted(
        (key for key in one.keys() | other.keys() if one.get(key) != other.get(key)), key=str
    )
    return "; ".join(f"{key}: {one.get(key)} and {other.get(key)}" for key in keys[:3])
