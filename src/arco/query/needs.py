"""What each table of `system` is made of: which tables of state, of which domain.

Most are one table of state. Some need others beside it: to know what is alive, to count, or for statistics,
which are read only by a query that asks for them.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from arco.fold.column import Kind
from arco.fold.table import Table
from arco.fold.tier1 import (
    CATALOGS,
    COLUMNS,
    DOMAIN,
    OBJECTS,
    PLACES,
    SCHEMA_VERSIONS,
    SCHEMAS,
    TABLES,
    TIER1,
)
from arco.fold.tier2 import (
    EDGE_OBSERVATIONS,
    EXECUTIONS_DOMAIN,
    LINEAGE_DOMAIN,
    LINEAGE_EDGES,
    OCCURRED,
    QUARANTINE,
    TIER2,
)
from arco.query.schemas import HISTORY, OBSERVATIONS, STATISTICS

DOMAIN_COLUMN = "domain"  # of the tables that are of several domains
DOMAINS = (DOMAIN, *TIER2)


@dataclass(frozen=True)
class State:
    """A table of state in its domain."""

    domain: str
    table: Table

    @property
    def name(self) -> str:
        return f"{self.domain}/{self.table.name}"

    def columns_for(self, used: Iterable[str]) -> tuple[str, ...]:
        """The columns of a table of Tier 2 without which those that are used could not be folded."""
        wanted = {*used, OCCURRED}
        names = set(self.table.key)
        for rule in self.table.rules:
            if wanted.intersection(rule.columns):
                names |= {*wanted.intersection(rule.columns), *rule.order}
        return tuple(sorted(names))


@dataclass(frozen=True)
class Need:
    """A table of state that is needed.

    If it is `filtered`, whoever asks for some values of a column needs only the rows with them in the
    column of that name here.
    """

    state: State
    filtered: bool = True

    @cached_property
    def columns(self) -> frozenset[str]:
        """The columns by which files can be passed over: what rows are spread by and sorted by.

        Only those of the key: a file with an older row of a key must not be read without the newer one.
        """
        table = self.state.table
        if not self.filtered:
            return frozenset()
        texts = {column.name for column in table.columns if column.kind is Kind.STRING}
        first = {table.sort[0]} | ({table.bucket.column} if table.bucket is not None else set())
        return frozenset(first & texts & set(table.key))


@dataclass(frozen=True)
class View:
    """A table of `system`: what it is made of, and what else if one of `joined` is asked for."""

    needs: tuple[Need, ...]
    joined: frozenset[str] = frozenset()
    joins: tuple[Need, ...] = ()

    def needs_for(self, columns: Iterable[str]) -> tuple[Need, ...]:
        """What a query needs that asks for these columns."""
        return (*self.needs, *(self.joins if self.joined.intersection(columns) else ()))


STATES = {
    state.name: state
    for state in (
        *(State(DOMAIN, table) for table in TIER1.values()),
        *(State(domain, table) for domain, tables in TIER2.items() for table in tables.values()),
    )
}


def _catalog(own: Table | None, *others: Table) -> View:
    needs = [Need(State(DOMAIN, table), filtered=False) for table in others]
    needs += [] if own is None else [Need(State(DOMAIN, own))]
    if own is None or own.name not in STATISTICS:
        return View(tuple(needs))
    statistics, names = STATISTICS[own.name]
    joins = (Need(State(EXECUTIONS_DOMAIN, statistics)),)
    return View(tuple(needs), frozenset(names), joins)


_CONTAINERS = (CATALOGS, SCHEMAS)
_OBJECTS = (*_CONTAINERS, TABLES)

VIEWS: dict[str, View] = {
    CATALOGS.name: _catalog(CATALOGS),
    SCHEMAS.name: _catalog(SCHEMAS, CATALOGS),
    TABLES.name: _catalog(TABLES, *_CONTAINERS),
    COLUMNS.name: _catalog(COLUMNS, *_OBJECTS),
    SCHEMA_VERSIONS.name: _catalog(SCHEMA_VERSIONS, *_OBJECTS),
    OBJECTS.name: _catalog(OBJECTS, *_OBJECTS),
    PLACES.name: _catalog(PLACES, *_OBJECTS),
    "dropped_objects": _catalog(None, *_OBJECTS, COLUMNS),
    **{
        name: View((Need(State(domain, table)),))
        for domain, tables in TIER2.items()
        for name, table in tables.items()
    },
    LINEAGE_EDGES.name: View(
        (Need(State(LINEAGE_DOMAIN, LINEAGE_EDGES)),),
        frozenset({OBSERVATIONS}),
        (Need(State(LINEAGE_DOMAIN, EDGE_OBSERVATIONS)),),
    ),
    QUARANTINE.name: View(tuple(Need(State(domain, QUARANTINE)) for domain in TIER2)),
}

# The tables that are made of chains of manifests, and of whose.
CHAINS: dict[str, tuple[str, ...]] = {
    name: (DOMAIN,) if name in ("commits", "audit") else DOMAINS for name in HISTORY
}


def filter_columns(view: str) -> frozenset[str]:
    """The columns of a table of `system` whose filters spare reading something."""
    if view in CHAINS:
        return frozenset({DOMAIN_COLUMN}) if len(CHAINS[view]) > 1 else frozenset()
    made = VIEWS[view]
    several = {DOMAIN_COLUMN} if view == QUARANTINE.name else set()
    return frozenset(several).union(*(need.columns for need in (*made.needs, *made.joins)))
