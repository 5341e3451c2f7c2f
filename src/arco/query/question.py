"""Questions: what must be read for a query, of which domains, and what is made of it."""

from collections.abc import Sequence
from dataclasses import dataclass

from arco.query.needs import CHAINS, DOMAIN_COLUMN, VIEWS, Need
from arco.query.prune import Wanted
from arco.query.spans import reaches
from arco.query.wire import Made, Scan


@dataclass(frozen=True)
class Question:
    """What a query needs. A domain is `joined` if only statistics of it are asked for."""

    made: tuple[Made, ...]
    states: dict[str, list[tuple[Need, Wanted]]]  # by table of state, for each place that reads it
    columns: dict[str, frozenset[str]]  # by table of state, those of `system` that are asked for
    chains: dict[str, tuple[str, ...]]  # by table of `system`, of which domains
    domains: frozenset[str]
    joined: frozenset[str]


def question_of(scans: Sequence[Scan]) -> Question:
    """What must be read for these tables of `system`."""
    made: list[Made] = []
    states: dict[str, list[tuple[Need, Wanted]]] = {}
    columns: dict[str, frozenset[str]] = {}
    chains: dict[str, tuple[str, ...]] = {}
    domains: set[str] = set()
    joined: set[str] = set()
    for scan in scans:
        if scan.view in CHAINS:
            chains[scan.view] = tuple(each for each in CHAINS[scan.view] if _asks(scan, each))
            domains.update(chains[scan.view])
            continue
        view = VIEWS[scan.view]
        needs = [need for need in view.needs if _asks(scan, need.state.domain)]
        joins = view.joins if view.joined.intersection(scan.columns) else ()
        made.append(Made(scan.view, bool(joins)))
        domains.update(need.state.domain for need in needs)
        joined.update(need.state.domain for need in joins)
        for need in (*needs, *joins):
            name = need.state.name
            states.setdefault(name, []).extend((need, wanted) for wanted in scan.wanted)
            columns[name] = columns.get(name, frozenset()).union(scan.columns)
    return Question(
        tuple(made), states, columns, chains, frozenset(domains), frozenset(joined - domains)
    )


def _asks(scan: Scan, domain: str) -> bool:
    """Whether a table that is of several domains is asked for its rows of one."""
    return any(
        DOMAIN_COLUMN not in wanted or reaches(wanted[DOMAIN_COLUMN], domain, domain)
        for wanted in scan.wanted
    )
