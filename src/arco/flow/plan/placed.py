"""What already stands in a plan while it is being made: which partitions, and how deep."""

from dataclasses import dataclass, field

from arco.flow.plan.key import task_key

NOWHERE = -1


@dataclass(frozen=True)
class Placed:
    """The planned partitions of one maker, with the level of each; level 0 waits for nothing."""

    maker: str
    levels: dict[str, int] = field(default_factory=dict)
    prefix: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "prefix", task_key(self.maker, ""))

    def key(self, partition: str) -> str:
        """The key of a task of this maker."""
        return f"{self.prefix}@{partition}" if partition else self.prefix

    def __contains__(self, partition: object) -> bool:
        return partition in self.levels


class Plans:
    """The planned partitions by the tables that they fill."""

    def __init__(self) -> None:
        self._by_table: dict[str, Placed] = {}

    def of(self, table: str) -> Placed | None:
        """What is planned for a table."""
        return self._by_table.get(table)

    def enter(self, placed: Placed, tables: list[str]) -> None:
        """From now on what is placed there counts for these tables."""
        self._by_table.update(dict.fromkeys(tables, placed))
