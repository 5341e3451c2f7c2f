"""What the state says of tables, partition by partition, as planning asks for it.

The columns of a table stay as they are; only the places of its keys are remembered, once for a table.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from arco.flow.plan.fingerprints import outside_material
from arco.flow.plan.table_state import PlanningState, TableState

UNKNOWN_TABLE = TableState()


@dataclass(frozen=True)
class KnownTable:
    """One table. `is_made`: a pipeline of the project fills it."""

    name: str
    state: TableState
    is_made: bool

    @property
    def identity(self) -> str:
        """What names it in fingerprints."""
        return self.state.table_id or self.name

    @cached_property
    def rows(self) -> dict[str, int]:
        """Where each partition stands in the columns."""
        return dict(zip(self.state.keys, range(len(self.state.keys)), strict=True))

    @cached_property
    def by_key(self) -> dict[str, str | None]:
        """The material of each partition that has a row."""
        return dict(zip(self.state.keys, self.state.materials, strict=True))

    def material(self, key: str) -> str | None:
        """What names the data of a partition; None if there are none, or nobody knows of any."""
        if self.is_made:
            return self.by_key.get(key)
        return outside_material(key, self.state.version, self.by_key)

    def materials(self, keys: Iterable[str]) -> list[str | None]:
        """The same for many."""
        if self.is_made or self.by_key:
            found = list(map(self.by_key.get, keys))
            if self.is_made or None not in found:
                return found
        return [self.material(key) for key in keys]

    def made_at_ms(self, key: str) -> int | None:
        """When the data of a partition were published; of others' tables when they last changed."""
        row = self.rows.get(key)
        if row is not None and self.state.made_at_ms and self.state.made_at_ms[row] is not None:
            return self.state.made_at_ms[row]
        return None if self.is_made else self.state.changed_at_ms


@dataclass(frozen=True)
class Known:
    """All tables of a state; each is looked into only once it is asked for."""

    state: PlanningState
    made: frozenset[str]

    @cached_property
    def _tables(self) -> dict[str, KnownTable]:
        return {}

    def table(self, name: str) -> KnownTable:
        """What is known of a table, which may be nothing."""
        found = self._tables.get(name)
        if found is None:
            state = self.state.tables.get(name, UNKNOWN_TABLE)
            found = self._tables[name] = KnownTable(name, state, name in self.made)
        return found
