"""Chains of tables in memory, where attempts publish and are fenced (P35)."""

from collections.abc import Mapping

from arco.catalog.publication import (
    DispatchedAttempt,
    NumberedPublication,
    Publication,
    publication_status,
    published_by_task,
)
from arco.core.errors import Fenced, Unavailable
from arco.flow.coordinator.messages import TaskOutput
from arco.flow.coordinator.ports import TableHead


class Chains:
    """`Fences` and `SourceVersions`; it survives restarts, as a store does."""

    def __init__(self) -> None:
        self.ids: dict[str, str] = {}
        self.chains: dict[str, list[Publication | None]] = {}
        self.fences = 0
        self.versions_of: dict[str, tuple[str | None, dict[str, str]]] = {}
        self.is_away = False

    def make(self, table: str) -> str:
        """A table with one version that no attempt has published."""
        table_id = self.ids.setdefault(table, f"id-{table}")
        self.chains.setdefault(table_id, [None])
        return table_id

    async def head(self, table: str) -> TableHead | None:
        self._check()
        table_id = self.ids.get(table)
        if table_id is None:
            return None
        return TableHead(table_id, "PARQUET", len(self.chains[table_id]) - 1)

    async def fence(
        self, table_id: str, attempt: DispatchedAttempt, since: int
    ) -> NumberedPublication | int:
        self._check()
        done = published_by_task(attempt.task, self._publications_since(table_id, since))
        if done is not None:
            return done
        self.fences += 1
        self.chains[table_id].append(attempt.publication(is_fence=True))
        return len(self.chains[table_id]) - 1

    async def versions(
        self, table_id: str, table_format: str, /
    ) -> tuple[str | None, Mapping[str, str]]:
        self._check()
        return self.versions_of[table_id]

    def publish(self, output: TaskOutput) -> int:
        """Publish as a worker does: the number of the version, or `Fenced`."""
        table_id = self.make(output.table)
        attempt = output.attempt
        standing = publication_status(
            attempt, self._publications_since(table_id, attempt.dispatched_at_number)
        )
        if standing.done is not None:
            return standing.done.number
        if standing.lost_to is not None:
            raise Fenced("another attempt holds the partition")
        self.chains[table_id].append(attempt.publication())
        return len(self.chains[table_id]) - 1

    def published(self, table: str) -> list[Publication]:
        """All publications of a table, in order."""
        chain = self.chains.get(self.ids.get(table, ""), [])
        return [each for each in chain if each is not None and not each.is_fence]

    def _publications_since(self, table_id: str, since: int) -> list[NumberedPublication]:
        chain = self.chains[table_id]
        return [
            NumberedPublication(number, each)
            for number, each in enumerate(chain)
            if number > since and each is not None
        ]

    def _check(self) -> None:
        if self.is_away:
            raise Unavailable("the catalog is away")
