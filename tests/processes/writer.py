"""A writer: one change after the other to objects of its own, at random, for as long as it is let."""

import asyncio
import random
from dataclasses import replace

from tests.processes import wishing
from tests.processes.client import Client
from tests.processes.note import Document, Fate, Note, Wish

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
            wish = await self._wish()
            if self._rng.random() < _KEYED:
                wish = replace(wish, key=f"key-{wish.mark}")
            note = await self._client.carry_out(wish)
            self._learn(note)
            if wish.key and self._rng.random() < _REPLAYED:
                await self._client.replay(note)

    def _learn(self, note: Note) -> None:
        if note.fate is not Fate.DONE or note.object_id is None or note.commit is None:
            return
        self._acked[note.object_id] = note.commit
        if note.wish.operation == "create_table":
            self._tables.append(note.object_id)
        elif note.wish.operation == "create_schema":
            self._schemas.append(note.object_id)

    async def _wish(self) -> Wish:
        self._count += 1
        mark = f"{self._name}-{self._count}"
        roll = self._rng.random()
        if roll < 0.08:
            self._contested += 1
            return wishing.create_table(mark, [wishing.COMMON], f"contested-{self._contested}")
        if len(self._schemas) < 2 or (roll < 0.15 and len(self._schemas) < _SCHEMAS):
            return wishing.create_schema(mark, await self._levels() if roll < 0.1 else [])
        if len(self._tables) < 2 or (roll < 0.3 and len(self._tables) < _TABLES):
            return wishing.create_table(mark, await self._levels())
        if roll < 0.45:
            return self._schema_wish(mark, await self._read(self._rng.choice(self._schemas)))
        return await self._table_wish(mark, await self._read(self._rng.choice(self._tables)))

    def _schema_wish(self, mark: str, schema: Document) -> Wish:
        if "dropped_at" in schema:
            return wishing.undrop(mark, schema, renamed=self._rng.random() < 0.5)
        if self._rng.random() < 0.5:
            return wishing.rename_schema(mark, schema)
        return wishing.drop_schema(mark, schema, force=self._rng.random() < 0.5)

    async def _table_wish(self, mark: str, table: Document) -> Wish:
        rng = self._rng
        if "dropped_at" in table:
            return wishing.undrop(mark, table, renamed=rng.random() < 0.5)
        match rng.randrange(9):
            case 0:
                return wishing.rename_table(mark, table)
            case 1:
                return wishing.move_table(mark, table, await self._levels())
            case 2:
                return wishing.drop_table(mark, table)
            case 3 | 4:
                return wishing.add_column(mark, table)
            case 5:
                return wishing.change_column(mark, table, rng.choice(table["columns"])["name"])
            case 6 if len(table["columns"]) > 1:
                return wishing.drop_column(mark, table, rng.choice(table["columns"])["name"])
            case 7:  # to be refused: it names a version that it never was
                return wishing.describe_table(mark, table, **{"If-Match": '"0"'})
            case 8:  # to be refused: the name is taken
                return wishing.create_table(mark, table["schema"], table["name"])
            case _:
                return wishing.describe_table(mark, table)

    async def _levels(self) -> list[str]:
        """A schema to put something into; it may have been dropped, and that is refused then."""
        if not self._schemas or self._rng.random() < 0.3:
            return [wishing.COMMON]
        levels: list[str] = (await self._read(self._rng.choice(self._schemas)))["schema"]
        return levels

    async def _read(self, object_id: str) -> Document:
        found = await self._client.read(object_id)
        if found["commit"] < self._acked[object_id]:
            acked = self._acked[object_id]
            self._client.blame(f"{object_id} was read at {found['commit']}, told {acked} before")
        return found
