"""A workspace in which things are observed, and a tracer that is asked about them."""

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import msgspec

from arco.catalog.model import ColumnRow
from arco.compactor.domain_compactor import DomainCompactor
from arco.fold.tier1 import DOMAIN
from arco.fold.tier2 import EXECUTIONS_DOMAIN, LINEAGE_DOMAIN
from arco.ledger.envelope import Envelope
from arco.ledger.writer import LedgerWriter
from arco.query.engine import SqlEngine
from arco.query.lineage.response import Impact, Lineage
from arco.query.lineage.tracer import Tracer
from arco.storage.roles import Role
from tests.compactor.in_process_engine import InProcessEngine
from tests.query.random_events import NOON, Events
from tests.query.workspace import Workspace, workspace

Sides = tuple[str, str]  # `table.column` as a test calls it, or a table alone


@dataclass
class World:
    """Tables of the schema `s` by name, and what was seen of them."""

    workspace: Workspace
    tracer: Tracer
    ids: dict[str, str]
    columns: dict[str, dict[str, str]]
    seen: int = 0
    reported: int = 0

    async def table(self, name: str, *columns: str) -> str:
        done = await self.workspace.table("s", name, **dict.fromkeys(columns, "bigint"))
        table_id = self.ids[name] = done.object.row.table_id  # type: ignore[union-attr]
        await self.learn_columns(name)
        return table_id

    async def learn_columns(self, name: str) -> None:
        snapshot = await self.workspace.reader().head()
        rows: list[ColumnRow] = [each.row for each in await snapshot.columns(self.ids[name])]
        self.columns[name] = {row.name: row.column_id for row in rows}

    def column(self, side: str, of: str) -> dict[str, str]:
        """One side of an edge between columns, such as `orders.amount`, with its ids."""
        table, _, column = of.partition(".")
        column_id = self.columns[table].get(column)
        endpoint = {f"{side}_table_id": self.ids[table], f"{side}_name": column}
        return endpoint if column_id is None else {**endpoint, f"{side}_column_id": column_id}

    def edge(self, source: str, target: str, kind: str = "DIRECT", **more: str) -> dict[str, str]:
        return {
            **self.column("source", source),
            **self.column("target", target),
            "transformation_type": kind,
            **more,
        }

    async def observe(
        self,
        source: str | list[str],
        target: str,
        *edges: dict[str, str],
        **more: Any,
    ) -> None:
        """A run that was seen to make a table of others, by columns or, without edges, as a whole."""
        self.seen += 1
        sources = [source] if isinstance(source, str) else source
        payload = {
            "execution_id": f"run-{self.seen}",
            "task_id": "load",
            "pipeline_id": "daily",
            "soundness": "exact" if edges else "table_only",
            "inputs": [self.dataset(each) for each in sources],
            "outputs": [self.dataset(target)],
            "column_edges": list(edges),
            "observed_at": f"2026-05-{self.seen % 28 + 1:02d}T10:00:00Z",
            **more,
        }
        line = Events(self.workspace.runtime, LINEAGE_DOMAIN, self.seen).line(
            "lineage_observed", **payload
        )
        await self._append(LINEAGE_DOMAIN, line)

    async def wrote(self, target: str, run: int | None = None, *partitions: str) -> None:
        """A run has written partitions of a table, or all of it: the last that was seen, if not named."""
        for partition in partitions or ("",):
            await self.partition("partition_completed", target, partition, run or self.seen)

    async def partition(self, event: str, target: str, partition: str, run: int) -> None:
        """Report a partition of a run; later reports have happened later."""
        self.reported += 1
        payload = {
            "table_id": self.ids[target],
            "partition_key": partition,
            "partition_values": None,
            "execution_id": f"run-{run}",
            **({"version": self.reported} if event == "partition_completed" else {}),
        }
        line = Events(self.workspace.runtime, EXECUTIONS_DOMAIN, self.reported).line(
            event, **payload
        )
        at = NOON + timedelta(hours=self.reported)
        envelope = msgspec.json.decode(line, type=Envelope)
        timed = msgspec.structs.replace(envelope, occurred_at=at, received_at=at)
        await self._append(EXECUTIONS_DOMAIN, msgspec.json.encode(timed))

    async def _append(self, domain: str, line: bytes) -> None:
        await LedgerWriter(self.workspace.store(Role.API), domain).append_lines([line])

    def dataset(self, name: str) -> dict[str, str]:
        """A table of the catalog, or else something of which only the name is known."""
        return {"table_id": self.ids[name], "name": name} if name in self.ids else {"name": name}

    async def chain(self, *names: str) -> None:
        """Tables that are each made of the one before."""
        for source, target in itertools.pairwise(names):
            await self.observe(source, target)

    async def publish(self) -> None:
        store = self.workspace.store(Role.COMPACTOR)
        for domain in (LINEAGE_DOMAIN, EXECUTIONS_DOMAIN):
            compactor = DomainCompactor(store, domain, InProcessEngine(store))
            while await compactor.cycle(everything=True) is not None:
                pass

    async def walk(self, name: str, **asked: Any) -> Lineage:
        return await self.tracer.walk(self.ids[name], **asked)

    async def impact(self, name: str, column: str, **asked: Any) -> Impact:
        return await self.tracer.impact(self.ids[name], column, **asked)


def names(lineage: Lineage | Impact) -> dict[str, str]:
    """The names of nodes by their ids, without catalog and schema."""
    return {node.id: node.name.removeprefix("default.s.") for node in lineage.nodes}


def pairs(lineage: Lineage) -> list[Sides]:
    called = names(lineage)
    return [(called[edge.source], called[edge.target]) for edge in lineage.edges]


def affected(impact: Impact) -> dict[str, tuple[str, int]]:
    """What is affected, as `table.column`: how, and after how many steps."""
    called = names(impact)
    return {
        f"{called[each.table_id]}.{each.column or '*'}": (each.reach, each.distance)
        for each in impact.affected
    }


@asynccontextmanager
async def world(*tables: str) -> AsyncIterator[World]:
    """A workspace with these tables, each written as `name` or `name(column, column)`."""
    async with workspace() as space:
        await space.schema("s")
        reader = space.store(Role.API)
        from arco.catalog.reader import SnapshotReader

        readers = {
            name: SnapshotReader(reader, name)
            for name in (DOMAIN, LINEAGE_DOMAIN, EXECUTIONS_DOMAIN)
        }
        engine = SqlEngine(readers[DOMAIN], domains={LINEAGE_DOMAIN: readers[LINEAGE_DOMAIN]})
        made = World(space, Tracer(readers, engine), {}, {})
        for each in tables:
            name, _, columns = each.rstrip(")").partition("(")
            await made.table(name, *filter(None, columns.replace(" ", "").split(",")))
        try:
            yield made
        finally:
            await engine.close()
