"""A writer: one change after the other to objects of its own, at random, for as long as it is let."""

import asyncio
import random
from dataclasses import replace

from tests.processes import change_requests
from tests.processes.client import Client
from tests.processes.journal import ChangeRequest, Document, Note, Outcome

_TABLES = 10
_SCHEMAS = 4
_KEYED = 0.5
_REPLAYED = 0.3


class Writer:
    """Nobody else changes what it has made, so it knows what must be there when it looks again."""

    def __init__(self, name: str, client: Client, rng: random.Random) -> None:
        self._name = name
        self._client = client
        self._rng = rng
        self._count = 0
        self._contested = 0
        self._tables: list[str] = []
        self._schemas: list[str] = []
        self._acked: dict[str, int] = {}  # the newest commit that we were told of, by object

    async def run(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            change = await self._wish()
            if self._rng.random() < _KEYED:
                change = replace(change, key=f"key-{change.mark}")
            note = await self._client.carry_out(change)
            self._learn(note)
            if change.key and self._rng.random() < _REPLAYED:
                await self._client.replay(note)

    def _learn(self, note: Note) -> None:
        if note.outcome is not Outcome.DONE or note.object_id is None or note.commit is None:
            return
        self._acked[note.object_id] = note.commit
        if note.change.operation == "create_table":
            self._tables.append(note.object_id)
        elif note.change.operation == "create_schema":
            self._schemas.append(note.object_id)

    async def _wish(self) -> ChangeRequest:
        self._count += 1
        mark = f"{self._name}-{self._count}"
        roll = self._rng.random()
        if roll < 0.08:
            self._contested += 1
            return change_requests.create_table(
                mark, [change_requests.COMMON], f"contested-{self._contested}"
            )
        if len(self._schemas) < 2 or (roll < 0.15 and len(self._schemas) < _SCHEMAS):
            return change_requests.create_schema(mark, await self._levels() if roll < 0.1 else [])
        if len(self._tables) < 2 or (roll < 0.3 and len(self._tables) < _TABLES):
            return change_requests.create_table(mark, await self._levels())
        if roll < 0.45:
            return self._schema_wish(mark, await self._read(self._rng.choice(self._schemas)))
        return await self._table_wish(mark, await self._read(self._rng.choice(self._tables)))

    def _schema_wish(self, mark: str, schema: Document) -> ChangeRequest:
        if "dropped_at" in schema:
            return change_requests.undrop(mark, schema, renamed=self._rng.random() < 0.5)
        if self._rng.random() < 0.5:
            return change_requests.rename_schema(mark, schema)
        return change_requests.drop_schema(mark, schema, force=self._rng.random() < 0.5)

    async def _table_wish(self, mark: str, table: Document) -> ChangeRequest:
        rng = self._rng
        if "dropped_at" in table:
            return change_requests.undrop(mark, table, renamed=rng.random() < 0.5)
        match rng.randrange(9):
            case 0:
                return change_requests.rename_table(mark, table)
            case 1:
                return change_requests.move_table(mark, table, await self._levels())
            case 2:
                return change_requests.drop_table(mark, table)
            case 3 | 4:
                return change_requests.add_column(mark, table)
            case 5:
                return change_requests.change_column(
                    mark, table, rng.choice(table["columns"])["name"]
                )
            case 6 if len(table["columns"]) > 1:
                return change_requests.drop_column(
                    mark, table, rng.choice(table["columns"])["name"]
                )
            case 7:  # to be refused: it names a version that it never was
                return change_requests.describe_table(mark, table, **{"If-Match": '"0"'})
            case 8:  # to be refused: the name is taken
                return change_requests.create_table(mark, table["schema"], table["name"])
            case _:
                return change_requests.describe_table(mark, table)

    async def _levels(self) -> list[str]:
        """A schema to put something into; it may have been dropped, and that is refused then."""
        if not self._schemas or self._rng.random() < 0.3:
            return [change_requests.COMMON]
        levels: list[str] = (await self._read(self._rng.choice(self._schemas)))["schema"]
        return levels

    async def _read(self, object_id: str) -> Document:
        document = await self._client.read(object_id)
        if document["commit"] < self._acked[object_id]:
            acked = self._acked[object_id]
            self._client.blame(f"{object_id} was read at {document['commit']}, told {acked} before")
        return document
