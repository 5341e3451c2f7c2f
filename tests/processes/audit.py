"""The audit after a run: the notes of the clients against the store, and the API against both.

Every change that the store has made is claimed by one note, and every acknowledged note has its change:
so nothing is lost, nothing is made twice, and nothing that was refused was made.
"""

import asyncio
import json
import random
from collections import defaultdict
from dataclasses import dataclass

import httpx2

from arco.catalog.manifest import CommitOperation, read_commit, read_manifest
from arco.catalog.model import CatalogRow, TableRow
from arco.catalog.reader import SnapshotReader
from arco.catalog.snapshot import Snapshot
from arco.core.runtime import Runtime
from arco.core.scope import Scope
from arco.storage.address import parse_address
from arco.storage.open import open_backend
from arco.storage.roles import Role
from arco.storage.store import Store
from tests.cli import command
from tests.processes.deployment import Deployment
from tests.processes.journal import Document, Journal, Note, Outcome

_OURS = "client:arco"  # makes the first catalog
_MOST_COMPARED = 1_500


@dataclass(frozen=True)
class Made:
    """A change that the store says it has made."""

    number: int
    operation: CommitOperation


def direct_reader(url: str, runtime: Runtime) -> SnapshotReader:
    """A reader with its own eyes on the store."""
    backend = open_backend(parse_address(url), runtime, fsync=False)
    return SnapshotReader(Store(backend, runtime, scope=Scope(), role=Role.API))


async def audit(deployment: Deployment, reader: SnapshotReader, journal: Journal) -> list[str]:
    """All that is wrong after a run; the deployment is up."""
    wrong = await audit_notes(reader, journal)
    wrong += await _compare_api(deployment, reader)
    # In a thread: other runs may go on beside this one.
    return wrong + await asyncio.to_thread(_verify, deployment)


async def audit_notes(reader: SnapshotReader, journal: Journal) -> list[str]:
    """What the clients were told, against the store itself."""
    made = await _read_made(reader)
    wrong = list(journal.wrong)
    unclaimed = {(each.number, each.operation.object_id): each for each in made}
    if len(unclaimed) != len(made):
        wrong.append("an object was changed twice in one commit")
    claimed, lost = _claim_acknowledged(journal, unclaimed)
    wrong += lost
    wrong += await _claim_unknown(reader, journal, list(unclaimed.values()))
    return wrong + await _compare_acknowledged(reader, claimed)


async def _read_made(reader: SnapshotReader) -> list[Made]:
    """Every change in the chain, by the reader alone."""
    head = await reader.head()
    made = []
    for entry in await reader.chain.history(0, head.number):
        commit = await read_commit(reader.store, read_manifest(entry).commit)
        made += [
            Made(entry.number, operation)
            for operation in commit.operations
            if operation.actor != _OURS
        ]
    return made


def _claim_acknowledged(
    journal: Journal, unclaimed: dict[tuple[int, str], Made]
) -> tuple[list[tuple[Note, Made]], list[str]]:
    """The acknowledged notes with their changes, each change once; and those that have none."""
    claimed, lost = [], []
    for note in journal.with_outcome(Outcome.DONE):
        made = unclaimed.pop((note.commit or 0, note.object_id or ""), None)
        if made is None or made.operation.operation != note.change.operation:
            lost.append(f"lost: {note.change.operation} of {note.change.mark} at {note.commit}")
        else:
            claimed.append((note, made))
    return claimed, lost


async def _claim_unknown(reader: SnapshotReader, journal: Journal, rest: list[Made]) -> list[str]:
    """What nobody was told of must be one of the unknown outcomes, each of them once."""
    wrong = []
    unknown = journal.with_outcome(Outcome.UNKNOWN)
    for each in rest:
        words = await _words(await reader.at_number(each.number), each.operation.object_id)
        for note in unknown:
            if _fits(note, each, words):
                unknown.remove(note)
                break
        else:
            wrong.append(f"made twice, or though refused: {each}")
    return wrong


def _fits(note: Note, each: Made, words: set[str]) -> bool:
    change = note.change
    if change.operation != each.operation.operation:
        return False
    if change.object_id not in {None, each.operation.object_id}:
        return False
    return change.mark in words if change.marked else change.object_id is not None


async def _words(snapshot: Snapshot, object_id: str) -> set[str]:
    """Where a change may have left its mark in an object."""
    row = (await snapshot.find(object_id, dropped=True)).row
    words = {row.name, row.comment or ""}
    if isinstance(row, TableRow):
        words |= {column.row.name for column in await snapshot.columns(row.table_id)}
    return words


async def _compare_acknowledged(
    reader: SnapshotReader, claimed: list[tuple[Note, Made]]
) -> list[str]:
    """What was acknowledged is, at its commit, just what the answer has said."""
    wrong = []
    count = min(len(claimed), _MOST_COMPARED)
    for note, made in random.Random(1).sample(claimed, count):
        stored = await _stored(await reader.at_number(made.number), made.operation.object_id)
        if not _agrees(note, stored):
            wrong.append(f"{note.change.mark} was told {note.document}, stored is {stored}")
    return wrong


def _agrees(note: Note, stored: Document) -> bool:
    document = note.document
    if document is None:  # a drop: of the object, or of one of its columns
        return ("dropped_at" in stored) is (note.change.operation != "drop_column")
    if document["id"] != note.object_id:
        return _column(document) in stored["columns"]
    if note.change.operation == "undrop" and "dropped_at" in stored:
        return False
    return stored == _essence(document)


def _essence(thing: Document) -> Document:
    """What an object is in itself, whatever its containers are called."""
    kept = ("id", "name", "comment", "commit", "schema_id", "parent_id", "dropped_at")
    essence = {name: thing[name] for name in kept if name in thing}
    if "columns" in thing:
        essence["columns"] = [_column(column) for column in thing["columns"]]
    return essence


def _column(column: Document) -> Document:
    return {name: column[name] for name in ("id", "name", "data_type", "position", "nullable")}


async def _stored(snapshot: Snapshot, object_id: str) -> Document:
    """The essence of an object as the reader finds it."""
    stored = await snapshot.find(object_id, dropped=True)
    row = stored.row
    thing: Document = {
        "id": object_id,
        "name": row.name,
        "comment": row.comment,
        "commit": stored.commit,
    }
    if row.dropped_at is not None:
        thing["dropped_at"] = row.dropped_at.isoformat().replace("+00:00", "Z")
    if isinstance(row, CatalogRow):
        return thing
    if not isinstance(row, TableRow):
        return thing | {"parent_id": row.parent_id}
    columns = [each.row for each in await snapshot.columns(object_id)]
    thing["columns"] = [
        {
            "id": column.column_id,
            "name": column.name,
            "data_type": column.data_type,
            "position": column.position,
            "nullable": column.nullable,
        }
        for column in columns
    ]
    return thing | {"schema_id": row.schema_id}


async def _compare_api(deployment: Deployment, reader: SnapshotReader) -> list[str]:
    """Every api shows the same commits and the same objects as the reader finds."""
    wrong: list[str] = []
    made = await _read_made(reader)
    head = await reader.head()
    newest: dict[str, int] = defaultdict(int)
    for each in made:
        newest[each.operation.object_id] = max(newest[each.operation.object_id], each.number)
    for api in deployment.apis:
        async with httpx2.AsyncClient(base_url=api.url, trust_env=False, timeout=30) as http:
            if await _listed(http) != [(each.number, each.operation.request_id) for each in made]:
                wrong.append(f"{api.url} lists other commits than there are")
            for object_id, number in newest.items():
                answer = await http.get(f"/api/v1/objects/{object_id}", params={"dropped": "true"})
                if answer.status_code != 200:
                    wrong.append(f"{api.url} has lost {object_id}: {answer.status_code}")
                    continue
                shown = _essence(answer.json())
                if shown != await _stored(head, object_id) or shown["commit"] < number:
                    wrong.append(f"{api.url} shows {shown}")
    return wrong


async def _listed(http: httpx2.AsyncClient) -> list[tuple[int, str]]:
    listed: list[tuple[int, str]] = []
    token: str | None = None
    while True:
        query = {"page_size": "1000"} | ({} if token is None else {"page_token": token})
        page = (await http.get("/api/v1/commits", params=query)).raise_for_status().json()
        for item in page["items"]:
            operations = item["commit"].get("deeds", [])
            listed += [
                (item["number"], operation["request_id"])
                for operation in reversed(operations)
                if operation["actor"] != _OURS
            ]
        token = page["next_page_token"]
        if token is None:
            return listed[::-1]


def _verify(deployment: Deployment) -> list[str]:
    """The chain has no gap and no fork, and every file of it has its hash."""
    run = command.arco("verify", *deployment.place, "--all", "--json")
    if run.returncode == 0 and json.loads(run.stdout)["ok"] is True:
        return []
    return [f"arco verify: {run.returncode} {run.stdout} {run.stderr}"]
