"""loadTable over HTTP, beside the peer: small and large metadata, plain, compressed, and unchanged."""

from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from arco.core.runtime import Runtime
from bench.figure import Figure, percentile
from bench.load import Ask, Load, Plan
from bench.peers import CONNECTIONS, PEER, Peers, by_turns, peers
from bench.rest import Catalog, Table

_ROUNDS = 3
_SECONDS = 2.0
_UNCHANGED = 5_000  # answers a second
_PACKED = {"Accept-Encoding": "gzip"}


@dataclass(frozen=True)
class _Case:
    """One line of the table."""

    what: str
    table: str
    times: float | None  # how often as many as the peer
    headers: dict[str, str] = field(default_factory=dict)


_CASES = (
    _Case("1 snapshot", "small", 2),
    _Case("1,000 snapshots", "large", 5),
    _Case("1,000 snapshots, gzip", "large", 20, _PACKED),
    _Case("9,000 snapshots", "huge", 20),
    _Case("9,000 snapshots, gzip", "huge", 50, _PACKED),
)
_SNAPSHOTS = {"small": 1, "large": 1_000, "huge": 9_000}


async def run(runtime: Runtime, scratch: Path) -> list[Figure]:
    """Measure on catalogs of their own."""
    with TemporaryDirectory(dir=scratch) as folder, peers(Path(folder)) as both:
        return await runtime.tasks.in_thread(lambda: _measure(both))


def _measure(both: Peers) -> list[Figure]:
    tables = {id(catalog): _fill(catalog) for catalog in both.both}
    figures = []
    for case in _CASES:
        plans = [
            (catalog, _plan(catalog, tables[id(catalog)][case.table], case.headers))
            for catalog in both.both
        ]
        figures += _against(case, by_turns(plans, rounds=_ROUNDS))
    return [*figures, *_unchanged(both.ours, tables[id(both.ours)])]


def _fill(catalog: Catalog) -> dict[str, Table]:
    made = {}
    for name, count in _SNAPSHOTS.items():
        made[name] = catalog.make_table("db", name)
        catalog.add_snapshots(made[name], count)
    return made


def _plan(
    catalog: Catalog, table: Table, headers: dict[str, str], status: int = 200, query: str = ""
) -> Plan:
    ask = Ask(path=table.path + query, headers=headers, status=status)
    return Plan(port=catalog.server.port, seconds=_SECONDS, connections=CONNECTIONS, ask=ask)


def _against(case: _Case, loads: list[list[Load]]) -> list[Figure]:
    ours, *peer = [percentile([each.rate for each in results], 0.5) for results in loads]
    work, *least = [percentile([each.cpu_ms for each in results], 0.5) for results in loads]
    rates = Figure(f"loadTable, {case.what}, requests/s", f"{ours:,.0f}")
    cost = Figure("  processor time of the server, ms a request", f"{work:.2f}")
    if peer and case.times is not None:
        [theirs] = peer
        rates = Figure(
            f"loadTable, {case.what}, requests/s (baseline: {PEER})",
            f"{ours:,.0f}",
            f"{theirs:,.1f}",
            f"{ours / theirs:.1f} x",
            f"{case.times:.0f} x",
            ours >= case.times * theirs,
        )
        cost = Figure(cost.what, cost.value, f"{least[0]:.2f}", f"{least[0] / work:.1f} x")
    return [rates, cost]


def _unchanged(ours: Catalog, tables: dict[str, Table]) -> list[Figure]:
    """Answers without a body to those who have it, and what is left without the history."""
    headers = {"If-None-Match": ours.etag(tables["huge"].path)}
    plans = [
        (ours, _plan(ours, tables["huge"], headers, 304)),
        (ours, _plan(ours, tables["huge"], {}, query="?snapshots=refs")),
    ]
    unchanged, refs = by_turns(plans, rounds=_ROUNDS)
    rate = percentile([each.rate for each in unchanged], 0.5)
    return [
        Figure(
            "loadTable, 9,000 snapshots, unchanged (304), requests/s",
            f"{rate:,.0f}",
            promised=f"{_UNCHANGED:,}",
            met=rate >= _UNCHANGED,
        ),
        Figure(
            "  processor time of the server, ms a request",
            f"{percentile([each.cpu_ms for each in unchanged], 0.5):.2f}",
        ),
        Figure(
            "loadTable, 9,000 snapshots, those of branches alone, requests/s",
            f"{percentile([each.rate for each in refs], 0.5):,.0f}",
        ),
    ]
