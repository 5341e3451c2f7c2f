"""The audit of events: rows against what senders were told, commits against the ledger, processes gone."""

import csv
import json
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from io import StringIO

import httpx2

from arco.catalog.manifest import Commit, CommitKind, manifests_of, read_commit, read_manifest
from arco.fold.tier2 import TIER2
from arco.ledger.segment import find_segment, parse_segment_key
from arco.storage.store import Store
from tests.cli.command import arco
from tests.processes.numbered_events import FOUND, expected_row
from tests.processes.sender import SendReport
from tests.processes.spark_killer import EventDeployment, Kill

Place = tuple[str, int]  # a stream, and the number of a segment in it

_PART = 80_000
_COUNTED = f"SELECT count(*), count(DISTINCT number), sum(number) FROM ({FOUND})"


def audit_rows(deployment: EventDeployment, report: SendReport) -> list[str]:
    """What `judge` finds in the rows of the store itself."""
    parts = {number - number % _PART for number in report.done | report.unknown}
    return judge(report, [row for part in sorted(parts) for row in read_rows(deployment, part)])


def judge(report: SendReport, rows: list[tuple[int, str]]) -> list[str]:
    """Every fact that was acknowledged is there once, as it was told, and nothing that was never sent."""
    numbers = Counter(number for number, _ in rows)
    kinds = {
        "lost": report.done - numbers.keys(),
        "doubled": {each for each, count in numbers.items() if count > 1},
        "never sent": numbers.keys() - report.done - report.unknown,
        "told otherwise": {number for number, words in rows if words != expected_row(number)},
    }
    problems = [f"{len(some)} {kind}: {sorted(some)[:10]}" for kind, some in kinds.items() if some]
    return [*report.wrong, *problems]


def read_rows(deployment: EventDeployment, part: int) -> list[tuple[int, str]]:
    """What the store says of some numbers: not of all at once, as an answer has only so many rows."""
    some = f"SELECT * FROM ({FOUND}) WHERE number >= {part} AND number < {part + _PART}"
    run = arco("sql", some, *deployment.place, "--csv")
    assert run.returncode == 0, run.stderr
    rows = csv.reader(StringIO(run.stdout))
    next(rows)
    return [(int(number), words) for number, words in rows]


async def audit_apis(deployment: EventDeployment, report: SendReport) -> list[str]:
    """Every api counts the same in SQL."""
    problems = []
    for api in deployment.apis:
        async with httpx2.AsyncClient(base_url=api.url, trust_env=False, timeout=120) as http:
            rows, distinct, total = await _ask(http, _COUNTED)
        most = report.done | report.unknown
        if rows != distinct or not len(report.done) <= rows <= len(most):
            problems.append(f"{api.url} counts {rows} rows about {distinct} facts")
        if not report.unknown and total != sum(report.done):
            problems.append(f"{api.url} adds up to {total}")
    return problems


async def _ask(http: httpx2.AsyncClient, sql: str) -> list[int]:
    answer = await http.post("/api/v1/query", json={"sql": sql})
    assert answer.status_code == 200, answer.text
    (row,) = answer.json()["rows"]
    return [int(each) for each in row]


@dataclass(frozen=True)
class Folds:
    """The commits that have folded segments, of all domains, and what is wrong with them."""

    commits: list[Commit]
    events: int
    wrong: list[str]


async def audit_folds(store: Store) -> Folds:
    """What `judge_folds` finds in all domains."""
    commits: list[Commit] = []
    problems: list[str] = []
    events = 0
    for domain in TIER2:
        folds = [each async for each in folds_of(store, domain)]
        lines = {place: count async for place, count in lines_of(store, domain)}
        problems += [f"{domain}: {each}" for each in judge_folds(folds, lines)]
        commits += folds
        events += sum(lines.values())
    return Folds(commits, events, problems)


def judge_folds(folds: list[Commit], lines: dict[Place, int]) -> list[str]:
    """Every segment of the ledger was folded by one commit, and every line of it counted once."""
    folded = Counter(
        (stream, seq)
        for commit in folds
        for stream, (first, last) in commit.streams.items()
        for seq in range(first, last + 1)
    )
    problems = [f"{place} was folded {count} times" for place, count in folded.items() if count > 1]
    problems += [
        f"{place} was not folded" for place, count in lines.items() if count and not folded[place]
    ]
    counts = [commit.counts for commit in folds if commit.counts is not None]
    counted, stored = sum(each.events for each in counts), sum(lines.values())
    if counted != stored:
        problems.append(f"{stored} lines are there, and {counted} were folded")
    if any(each.late or each.quarantined for each in counts):
        problems.append("events came late or were quarantined")
    return problems


async def folds_of(store: Store, domain: str) -> AsyncIterator[Commit]:
    chain = manifests_of(store, domain)
    for entry in await chain.history(0, (await chain.head()).number):
        commit = await read_commit(store, read_manifest(entry).commit)
        if commit.kind is CommitKind.FOLD:
            yield commit


async def lines_of(store: Store, domain: str) -> AsyncIterator[tuple[Place, int]]:
    """Every segment of a domain's ledger, and how many events it has."""
    async for meta in store.list(f"ledger/{domain}/"):
        place = parse_segment_key(meta.key)
        if place is not None:
            segment = await find_segment(store, *place)
            assert segment is not None
            _, stream, seq = place
            yield (stream, seq), len(segment.lines)


def audit_files(deployment: EventDeployment) -> list[str]:
    """No chain has a gap or a fork, and every file has its hash."""
    run = arco("verify", *deployment.place, "--all", "--json")
    if run.returncode == 0 and json.loads(run.stdout)["ok"] is True:
        return []
    return [f"arco verify: {run.returncode} {run.stdout} {run.stderr}"]


def figures(
    deployment: EventDeployment, report: SendReport, folds: Folds, kills: list[Kill]
) -> str:
    """What a run has shown, in one line."""
    kinds = Counter(each.kind for each in kills)
    acks = recovery([each.elapsed_s for each in kills], report.acks)
    seen = [
        (each.counts.newest_received.timestamp(), each.created_at.timestamp())
        for each in folds.commits
        if each.counts is not None and each.counts.newest_received is not None
    ]
    visible = recovery([each.at for each in kills], seen)
    return (
        f"kill -9 under events, {deployment.name}: {len(kills)} kills "
        f"({', '.join(f'{count} {kind}' for kind, count in sorted(kinds.items()))}), "
        f"{len(report.done)} events acknowledged: 0 lost, 0 doubled ({len(report.unknown)} unknown, "
        f"{report.failures} tries failed, {report.repeats} batches repeated; {folds.events} lines folded "
        f"once each in {len(folds.commits)} commits); recovery p50/max {_words(acks)} to the next "
        f"acknowledgement, {_words(visible)} until it is visible"
    )


def recovery(kills: list[float], spans: list[tuple[float, float]]) -> list[float]:
    """How long after each kill something had ended that began after it, if no other kill came between."""
    durations = []
    for at in kills:
        ends = [ended for began, ended in spans if began > at]
        if ends and not any(at < other < min(ends) for other in kills):
            durations.append(min(ends) - at)
    return durations


def _words(seconds: list[float]) -> str:
    if not seconds:
        return "-"
    ordered = sorted(seconds)
    return f"{ordered[(len(ordered) - 1) // 2]:.1f}/{ordered[-1]:.1f} s"
