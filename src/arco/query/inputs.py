"""The inputs of a query: the snapshots, state tables, files and chains that it reads, sent to a worker.

`SnapshotSelector` finds the manifest of each domain that a query reads.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import pyarrow as pa

from arco.catalog.manifest import FileRef, read_named
from arco.catalog.reader import SnapshotReader, parse_as_of
from arco.catalog.snapshot import Snapshot
from arco.core.errors import Invalid, NotFound
from arco.core.hashing import sha256_hex
from arco.fold.tier1 import DOMAIN
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
from arco.query.pruning import PrunedFiles, WantedValues, overlaps_range, prune
from arco.query.result import to_arrow
from arco.query.system_tables import (
    CHAIN_SCHEMAS,
    CHAIN_TABLES,
    DOMAIN_COLUMN,
    STATE_TABLES,
    SYSTEM_TABLES,
    DomainTable,
    TableInput,
)
from arco.query.worker_pool import WorkerClient


class SnapshotSelector:
    """Finds the snapshots of several domains."""

    def __init__(self, readers: Mapping[str, SnapshotReader]) -> None:
        self._readers = readers
        self._tasks = readers[DOMAIN].store.runtime.tasks

    async def snapshots(
        self, domains: Iterable[str], joined: Iterable[str], as_of: str | None
    ) -> dict[str, Snapshot]:
        """A snapshot of each domain that a query reads, and of each that is joined to its tables."""
        own = sorted(domains)
        others = sorted(set(joined) - set(own))
        if as_of is None or isinstance(parse_as_of(as_of), datetime):
            return await self._all(own, others, as_of)
        if len(own) > 1:
            raise Invalid(
                f"the query reads the domains {', '.join(own)}, and each has its own numbers: "
                "pass a time as as_of, or read the tables of one domain"
            )
        [domain] = own or [DOMAIN]
        snapshot = await self._readers[domain].at(as_of)
        time = None if snapshot.created_at is None else snapshot.created_at.isoformat()
        return {domain: snapshot, **await self._all([], others, time)}

    async def _all(
        self, own: list[str], joined: list[str], as_of: str | None
    ) -> dict[str, Snapshot]:
        snapshots = await self._tasks.gather(
            *(self._at(each, as_of) for each in own),
            *(self._at(each, as_of, joined=True) for each in joined),
        )
        return dict(zip([*own, *joined], snapshots, strict=True))

    async def _at(self, domain: str, as_of: str | None, *, joined: bool = False) -> Snapshot:
        reader = self._readers[domain]
        try:
            return await reader.at(as_of)
        except NotFound:
            # A domain of events is empty before its first manifest; the catalog is not. And a query does
            # not fail because the statistics of its tables are retained for a shorter time.
            if joined or (domain != DOMAIN and await reader.chain.floor() == 0):
                return reader.empty_snapshot
            raise


def parse_freshness(freshness: str | None, as_of: str | None) -> bool:
    """Whether a fresh read is wanted; `Invalid` for an unknown freshness, or a fresh read with `as_of`.

    The tables of the catalog are always fresh: a change is acknowledged after it is published.
    """
    if freshness not in (None, "published", "fresh"):
        raise Invalid(f"freshness is 'published' or 'fresh', not {freshness[:40]!r}")
    if freshness == "fresh" and as_of is not None:
        raise Invalid("as_of reads a published state: leave it out for a fresh read")
    return freshness == "fresh"


_PARALLEL_READS = 16


@dataclass(frozen=True)
class QueryInputs:
    """The inputs of a query. A domain is `joined` if the query reads only statistics of it."""

    views: tuple[ViewRequest, ...]
    # By state table: the values that each scan of it wants.
    states: dict[str, list[tuple[TableInput, WantedValues]]]
    columns: dict[str, frozenset[str]]  # by state table, the used columns of `system`
    chains: dict[str, tuple[str, ...]]  # by table of `system`, the domains whose chains it shows
    domains: frozenset[str]
    joined: frozenset[str]


def inputs_of(scans: Sequence[SystemScan]) -> QueryInputs:
    """The inputs of a query that reads these tables of `system`."""
    views: list[ViewRequest] = []
    states: dict[str, list[tuple[TableInput, WantedValues]]] = {}
    columns: dict[str, frozenset[str]] = {}
    chains: dict[str, tuple[str, ...]] = {}
    domains: set[str] = set()
    joined: set[str] = set()
    for scan in scans:
        if scan.view in CHAIN_TABLES:
            chains[scan.view] = tuple(
                each for each in CHAIN_TABLES[scan.view] if _reads_domain(scan, each)
            )
            domains.update(chains[scan.view])
            continue
        table = SYSTEM_TABLES[scan.view]
        own = [each for each in table.inputs if _reads_domain(scan, each.state.domain)]
        others = table.joined_inputs if table.joined_columns.intersection(scan.columns) else ()
        views.append(ViewRequest(scan.view, bool(others)))
        domains.update(each.state.domain for each in own)
        joined.update(each.state.domain for each in others)
        for each in (*own, *others):
            name = each.state.name
            states.setdefault(name, []).extend((each, wanted) for wanted in scan.wanted)
            columns[name] = columns.get(name, frozenset()).union(scan.columns)
    return QueryInputs(
        tuple(views), states, columns, chains, frozenset(domains), frozenset(joined - domains)
    )


def _reads_domain(scan: SystemScan, domain: str) -> bool:
    """Whether the filters on a table of several domains allow rows of this one."""
    return any(
        DOMAIN_COLUMN not in wanted or overlaps_range(wanted[DOMAIN_COLUMN], domain, domain)
        for wanted in scan.wanted
    )


class QuerySources:
    """The snapshot readers of an engine, with the histories and ledger tails that it has read."""

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
            if name != DOMAIN  # events of the catalog count only once they are published
        }


@dataclass
class LoadedInputs:
    """The inputs that the worker holds."""

    states: dict[str, StateInputs] = field(default_factory=dict)
    files: dict[str, PrunedFiles] = field(default_factory=dict)
    columns: dict[str, tuple[str, ...]] = field(default_factory=dict)  # to decode; empty for all
    chain_keys: dict[str, str] = field(default_factory=dict)

    def run(self, sql: str, inputs: QueryInputs) -> RunQuery:
        return RunQuery(sql=sql, states=self.states, views=inputs.views, rows=self.chain_keys)


class InputLoader:
    """Sends the inputs of one query to its worker, from one snapshot of each domain."""

    def __init__(
        self, sources: QuerySources, worker: WorkerClient, snapshots: Mapping[str, Snapshot]
    ) -> None:
        self._sources = sources
        self._worker = worker
        self._snapshots = snapshots
        self._tasks = sources.store.runtime.tasks

    async def load(self, inputs: QueryInputs, *, fresh: bool) -> LoadedInputs:
        """Send the inputs that the worker does not hold yet."""
        loaded = LoadedInputs()
        states = [STATE_TABLES[name] for name in inputs.states]
        tails = await self._read_tails({state.domain for state in states}) if fresh else {}
        for state in states:
            files = await self._snapshots[state.domain].files_of(state.table)
            pruned = prune(inputs.states[state.name], files)
            loaded.files[state.name] = pruned
            loaded.columns[state.name] = self._columns(state, pruned, inputs)
            loaded.states[state.name] = self._state_inputs(state, loaded, tails.get(state.domain))
        loaded.chain_keys = {
            view: self._chain_key(view, domains) for view, domains in inputs.chains.items()
        }
        keys = [
            key
            for each in loaded.states.values()
            for key in (*(ref.key for ref in each.files), *each.segments)
        ]
        missing = set(await self._worker.find_missing((*keys, *loaded.chain_keys.values())))
        await self._send_files(states, loaded, missing)
        for state in states:
            if (tail := tails.get(state.domain)) is not None:
                await send_tail(self._worker, state, tail, missing, self._sources.limits)
        for view, key in loaded.chain_keys.items():
            if key in missing:
                await self._send_history(view, key, inputs.chains[view])
        return loaded

    async def _read_tails(self, domains: set[str]) -> dict[str, LedgerTail]:
        names = sorted(domains & self._sources.tails.keys())
        tails = await self._tasks.gather(
            *(self._sources.tails[name].above(self._snapshots[name]) for name in names)
        )
        return dict(zip(names, tails, strict=True))

    def _columns(
        self, state: DomainTable, pruned: PrunedFiles, inputs: QueryInputs
    ) -> tuple[str, ...]:
        rows = sum(ref.rows for ref in pruned.files)
        if state.domain == DOMAIN or rows <= self._sources.limits.wide_rows:
            return ()
        return state.columns_for(inputs.columns[state.name])

    def _state_inputs(
        self, state: DomainTable, loaded: LoadedInputs, ledger_tail: LedgerTail | None
    ) -> StateInputs:
        """The files of a state table, which of them are of the tail, and its ledger segments."""
        pruned, columns = loaded.files[state.name], loaded.columns[state.name]
        manifest = self._snapshots[state.domain].manifest
        tail_files = () if manifest is None else manifest.tail.get(state.table.name, ())
        tail_paths = {ref.path for ref in tail_files}
        files = [
            StateFileRef(
                key=_file_key(state, ref, columns),
                tail=ref.path in tail_paths,
                buckets=ref.buckets,
            )
            for ref in pruned.files
        ]
        retained = {} if manifest is None else manifest.retained_from
        return StateInputs(
            files=tuple(files),
            whole=pruned.is_unpruned,
            segments=() if ledger_tail is None else ledger_tail.segment_keys(state.table.name),
            retained_from=retained.get(state.table.name),
        )

    def _chain_key(self, view: str, domains: Sequence[str]) -> str:
        hashes = [self._snapshots[domain].sha256 for domain in domains]
        digest = sha256_hex("/".join([*domains, *hashes]).encode())
        return f"{view}/{digest}/{self._sources.limits.history}"

    async def _send_files(
        self, states: Sequence[DomainTable], loaded: LoadedInputs, missing: set[str]
    ) -> None:
        wanted = [
            (state, ref)
            for state in states
            for ref in loaded.files[state.name].files
            if _file_key(state, ref, loaded.columns[state.name]) in missing
        ]
        wanted.sort(key=lambda each: each[1].path)
        for start in range(0, len(wanted), _PARALLEL_READS):
            batch = wanted[start : start + _PARALLEL_READS]
            # A combined file is read once, for all its tables.
            unique = {ref.path: (state, ref) for state, ref in batch}
            read = await self._tasks.gather(*(self._read(*each) for each in unique.values()))
            contents = dict(zip(unique, read, strict=True))
            for state, ref in batch:
                raw = contents[ref.path]
                columns = loaded.columns[state.name]
                request = PutStateFile(
                    key=_file_key(state, ref, columns),
                    state=state.name,
                    rows=ref.rows,
                    columns=columns,
                    is_combined=ref.is_combined,
                )
                await self._worker.send(request, raw)

    async def _read(self, state: DomainTable, ref: FileRef) -> bytes:
        return await read_named(self._sources.readers[state.domain].store, ref)

    async def _send_history(self, view: str, key: str, domains: Sequence[str]) -> None:
        tables = [CHAIN_SCHEMAS[view].empty_table()]
        for domain in domains:
            history = self._sources.history[domain]
            tables.append(await history.table(view, self._snapshots[domain]))
        await self._worker.send(PutRows(key=key), to_arrow(pa.concat_tables(tables)))


def _file_key(state: DomainTable, ref: FileRef, columns: Sequence[str]) -> str:
    return "/".join([ref.rows_key(state.table.name), *columns])
