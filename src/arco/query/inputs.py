"""Questions: what must be read for a query, of which domains, and what is made of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from arco.catalog.manifest import FileRef, read_named
from arco.catalog.reader import SnapshotReader
from arco.catalog.snapshot import Snapshot
from arco.core.hashing import sha256_hex
from arco.fold.tier1 import DOMAIN
from arco.ledger.watermark import Watermark
from arco.query.history import ChainHistory
from arco.query.ledger_tail import LedgerTail, LedgerTailReader, send_tail
from arco.query.limits import QueryLimits
from arco.query.protocol import (
    PutRows,
    PutStateFile,
    RunQuery,
    StateFileRef,
    StateInputs,
    SystemScan,
    ViewRequest,
)
from arco.query.pruning import PrunedFiles, Wanted, overlaps_range, prune
from arco.query.result import to_arrow
from arco.query.system_tables import (
    CHAIN_TABLES,
    DOMAIN_COLUMN,
    HISTORY,
    STATE_TABLES,
    SYSTEM_TABLES,
    DomainTable,
    TableInput,
)
from arco.query.worker_pool import WorkerClient


@dataclass(frozen=True)
class QueryInputs:
    """What a query needs. A domain is `joined` if only statistics of it are asked for."""

    made: tuple[ViewRequest, ...]
    states: dict[
        str, list[tuple[TableInput, Wanted]]
    ]  # by table of state, for each place that reads it
    columns: dict[str, frozenset[str]]  # by table of state, those of `system` that are asked for
    chains: dict[str, tuple[str, ...]]  # by table of `system`, of which domains
    domains: frozenset[str]
    joined: frozenset[str]


def inputs_of(scans: Sequence[SystemScan]) -> QueryInputs:
    """What must be read for these tables of `system`."""
    made: list[ViewRequest] = []
    states: dict[str, list[tuple[TableInput, Wanted]]] = {}
    columns: dict[str, frozenset[str]] = {}
    chains: dict[str, tuple[str, ...]] = {}
    domains: set[str] = set()
    joined: set[str] = set()
    for scan in scans:
        if scan.view in CHAIN_TABLES:
            chains[scan.view] = tuple(each for each in CHAIN_TABLES[scan.view] if _asks(scan, each))
            domains.update(chains[scan.view])
            continue
        view = SYSTEM_TABLES[scan.view]
        needs = [need for need in view.needs if _asks(scan, need.state.domain)]
        joins = view.joins if view.joined.intersection(scan.columns) else ()
        made.append(ViewRequest(scan.view, bool(joins)))
        domains.update(need.state.domain for need in needs)
        joined.update(need.state.domain for need in joins)
        for need in (*needs, *joins):
            name = need.state.name
            states.setdefault(name, []).extend((need, wanted) for wanted in scan.wanted)
            columns[name] = columns.get(name, frozenset()).union(scan.columns)
    return QueryInputs(
        tuple(made), states, columns, chains, frozenset(domains), frozenset(joined - domains)
    )


def _asks(scan: SystemScan, domain: str) -> bool:
    """Whether a table that is of several domains is asked for its rows of one."""
    return any(
        DOMAIN_COLUMN not in wanted or overlaps_range(wanted[DOMAIN_COLUMN], domain, domain)
        for wanted in scan.wanted
    )


_AT_ONCE = 16


class QuerySources:
    """What an engine reads from, and all that it remembers of it."""

    def __init__(self, readers: Mapping[str, SnapshotReader], limits: QueryLimits) -> None:
        self.readers = readers
        self.store = readers[DOMAIN].store
        self.limits = limits
        self.history = {
            name: ChainHistory(reader, depth=limits.history) for name, reader in readers.items()
        }
        self.tails = {
            name: LedgerTailReader(reader.store, name, limits)
            for name, reader in readers.items()
            if name != DOMAIN  # the catalog's events count only once they are published
        }


@dataclass
class LoadedInputs:
    """What the worker has been given: the rest of the query's way is its own."""

    states: dict[str, StateInputs] = field(default_factory=dict)
    files: dict[str, PrunedFiles] = field(default_factory=dict)
    columns: dict[str, tuple[str, ...]] = field(default_factory=dict)  # to decode; none for all
    finished: dict[str, str] = field(default_factory=dict)

    def run(self, sql: str, question: QueryInputs) -> RunQuery:
        return RunQuery(sql=sql, states=self.states, views=question.made, rows=self.finished)


class InputLoader:
    """One query's loading, from one snapshot of each domain."""

    def __init__(
        self, sources: QuerySources, talk: WorkerClient, snapshots: Mapping[str, Snapshot]
    ) -> None:
        self._sources = sources
        self._talk = talk
        self._snapshots = snapshots
        self._tasks = sources.store.runtime.tasks

    async def load(self, question: QueryInputs, *, fresh: bool) -> LoadedInputs:
        """Give the worker all that the query reads."""
        loaded = LoadedInputs()
        states = [STATE_TABLES[name] for name in question.states]
        tails = await self._tails({state.domain for state in states}) if fresh else {}
        for state in states:
            files = await self._snapshots[state.domain].files_of(state.table)
            pruned = prune(question.states[state.name], files)
            loaded.files[state.name] = pruned
            loaded.columns[state.name] = self._columns(state, pruned, question)
            loaded.states[state.name] = self._parts(state, loaded, tails.get(state.domain))
        loaded.finished = {view: self._key(view, of) for view, of in question.chains.items()}
        keys = [
            key
            for each in loaded.states.values()
            for key in (*(part.key for part in each.parts), *each.segments)
        ]
        lacking = set(await self._talk.lacks((*keys, *loaded.finished.values())))
        await self._send_files(states, loaded, lacking)
        for state in states:
            if (tail := tails.get(state.domain)) is not None:
                await send_tail(self._talk, state, tail, lacking, self._sources.limits)
        for view, key in loaded.finished.items():
            if key in lacking:
                await self._send_history(view, key, question.chains[view])
        return loaded

    async def _tails(self, domains: set[str]) -> dict[str, LedgerTail]:
        named = sorted(domains & self._sources.tails.keys())
        found = await self._tasks.gather(*(self._tail(domain) for domain in named))
        return dict(zip(named, found, strict=True))

    async def _tail(self, domain: str) -> LedgerTail:
        manifest = self._snapshots[domain].manifest
        tail = self._sources.tails[domain]
        if manifest is None:
            return await tail.since(Watermark(), {})
        return await tail.since(manifest.watermark, manifest.retained_from)

    def _columns(
        self, state: DomainTable, pruned: PrunedFiles, question: QueryInputs
    ) -> tuple[str, ...]:
        rows = sum(ref.rows for ref in pruned.files)
        if state.domain == DOMAIN or rows <= self._sources.limits.wide_rows:
            return ()
        return state.columns_for(question.columns[state.name])

    def _parts(
        self, state: DomainTable, loaded: LoadedInputs, ledger_tail: LedgerTail | None
    ) -> StateInputs:
        """The files of a table of state, which of them are news, and what is in no file yet."""
        pruned, columns = loaded.files[state.name], loaded.columns[state.name]
        manifest = self._snapshots[state.domain].manifest
        tail = () if manifest is None else manifest.tail.get(state.table.name, ())
        news = {ref.path for ref in tail}
        parts = [
            StateFileRef(key=_file_key(ref, columns), tail=ref.path in news, buckets=ref.buckets)
            for ref in pruned.files
        ]
        retained = {} if manifest is None else manifest.retained_from
        return StateInputs(
            parts=tuple(parts),
            whole=pruned.is_whole,
            segments=() if ledger_tail is None else ledger_tail.segment_keys(state.table.name),
            retained_from=retained.get(state.table.name),
        )

    def _key(self, view: str, domains: Sequence[str]) -> str:
        hashes = [self._snapshots[domain].sha256 for domain in domains]
        named = sha256_hex("/".join([*domains, *hashes]).encode())
        return f"{view}/{named}/{self._sources.limits.history}"

    async def _send_files(
        self, states: Sequence[DomainTable], loaded: LoadedInputs, lacking: set[str]
    ) -> None:
        wanted = [
            (state, ref)
            for state in states
            for ref in loaded.files[state.name].files
            if _file_key(ref, loaded.columns[state.name]) in lacking
        ]
        for start in range(0, len(wanted), _AT_ONCE):
            batch = wanted[start : start + _AT_ONCE]
            read = await self._tasks.gather(*(self._read(*each) for each in batch))
            for (state, ref), raw in zip(batch, read, strict=True):
                columns = loaded.columns[state.name]
                key = _file_key(ref, columns)
                message = PutStateFile(key=key, state=state.name, rows=ref.rows, columns=columns)
                await self._talk.send(message, raw)

    async def _read(self, state: DomainTable, ref: FileRef) -> bytes:
        return await read_named(self._sources.readers[state.domain].store, ref)

    async def _send_history(self, view: str, key: str, domains: Sequence[str]) -> None:
        found = [HISTORY[view].empty_table()]
        for domain in domains:
            history = self._sources.history[domain]
            found.append(await history.table(view, self._snapshots[domain]))
        await self._talk.send(PutRows(key=key), to_arrow(pa.concat_tables(found)))


def _file_key(ref: FileRef, columns: Sequence[str]) -> str:
    return "/".join([ref.sha256, *columns])
