"""Commits over HTTP by sixteen writers, beside the peer: over fifty tables, and all to one."""

from pathlib import Path
from tempfile import TemporaryDirectory

from arco.core.runtime import Runtime
from bench.figure import Figure, percentile
from bench.load import Load, Plan, Write
from bench.peers import CONNECTIONS, PEER, Peers, by_turns, peers
from bench.rest import Catalog, Table, commit_of

_ROUNDS = 3
_SECONDS = 4.0
_TABLES = 50


async def run(runtime: Runtime, scratch: Path) -> list[Figure]:
    """Measure on catalogs of their own."""
    with TemporaryDirectory(dir=scratch) as folder, peers(Path(folder)) as both:
        return await runtime.tasks.in_thread(lambda: _measure(both))


def _measure(both: Peers) -> list[Figure]:
    made = [
        (catalog, [catalog.make_table("db", f"table_{number}") for number in range(_TABLES)])
        for catalog in both.both
    ]
    figures = []
    for what, count, times in ((f"over {_TABLES} tables", _TABLES, 3), ("to one table", 1, 2)):
        plans = [(catalog, _plan(catalog, tables[:count])) for catalog, tables in made]
        loads = by_turns(plans, rounds=_ROUNDS)
        figures += _against(what, times, loads)
        figures.append(_clean(both.ours, loads[0]))
    return figures


def _plan(catalog: Catalog, tables: list[Table]) -> Plan:
    write = Write(
        paths=tuple(table.path for table in tables),
        bodies=tuple(commit_of(table) for table in tables),
    )
    return Plan(port=catalog.server.port, seconds=_SECONDS, connections=CONNECTIONS, write=write)


def _against(what: str, times: int, loads: list[list[Load]]) -> list[Figure]:
    ours, *peer = [percentile([each.rate for each in results], 0.5) for results in loads]
    work, *least = [percentile([each.cpu_ms for each in results], 0.5) for results in loads]
    waits, *their_waits = [
        percentile([ms for each in results for ms in each.ms], 0.5) for results in loads
    ]
    title = f"commits by {CONNECTIONS} writers {what}, commits/s"
    rates = Figure(title, f"{ours:,.0f}")
    cost = Figure("  processor time, ms a commit; p50 ms", f"{work:.2f}; {waits:.0f}")
    if peer:
        [theirs] = peer
        rates = Figure(
            f"{title} (baseline: {PEER})",
            f"{ours:,.0f}",
            f"{theirs:,.0f}",
            f"{ours / theirs:.1f} x",
            f"{times} x",
            ours >= times * theirs,
        )
        cost = Figure(
            cost.what,
            cost.value,
            f"{least[0]:.2f}; {their_waits[0]:.0f}",
            f"{least[0] / work:.1f} x; {their_waits[0] / waits:.1f} x",
        )
    return [rates, cost]


def _clean(ours: Catalog, loads: list[Load]) -> Figure:
    """No requirement can fail here, so nothing may be refused; and what was confirmed must be there."""
    refused = sum(
        count for each in loads for status, count in each.statuses.items() if status != 200
    )
    error = next((each.error for each in loads if each.error), "")
    lost = 0
    for path, counts in loads[-1].last.items():
        properties = ours.get(path)["metadata"]["properties"]
        lost += sum(
            int(properties.get(f"bench.writer-{writer}", 0)) < count
            for writer, count in counts.items()
        )
    return Figure(
        f"  answers that were no success; confirmed writes that are lost{error and ': ' + error}",
        f"{refused}; {lost}",
        promised="0; 0",
        met=refused == 0 and lost == 0,
    )
