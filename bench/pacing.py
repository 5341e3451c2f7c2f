"""A light load beside Spark: what it costs in requests to the store and in processor time, and how soon
events are seen.

6 events, 1.2 DDL statements and 0.3 Iceberg commits come a second, one request each. The statements make
Iceberg tables; then, for half as long, they are those of the native API by turns: a new schema, a new table
in it, a comment on it. The store is an S3 server that counts the requests of all processes: API, compactor
and Spark workers. The requests by kind of object are printed on stderr. The reconciler's first look at all
tables, half a minute after the start and then once a day, is over before anything is counted.
"""

import json
import os
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from arco.core.runtime import Runtime
from bench.event_load import execution_started
from bench.figure import Figure, percentile
from bench.load import Connection, request
from bench.process import arco_up
from bench.process_tree import cpu_s, process_tree
from bench.rest import Catalog, new_table
from tests.faults.running import RunningServer, running_server

_SECONDS = float(os.environ.get("PACING_SECONDS", "60"))
_WARM_S = 10.0
_RECONCILED_S = 45.0  # after the start, when the reconciler has looked at all tables
_START_S = 180.0  # the first event starts Spark
_EVENTS_EVERY_S = 1 / 6
_DDL_EVERY_S = 1 / 1.2
_COMMIT_EVERY_S = 1 / 0.3

_LOOK_EVERY_S = 0.5


@dataclass
class _Load:
    """What was sent, and when each event could be seen."""

    port: int
    catalog: Catalog
    name: str
    ddl: Callable[["_Load", Connection, int], None]
    ended: threading.Event = field(default_factory=threading.Event)
    pending: dict[str, float] = field(default_factory=dict)
    seen_s: list[float] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def send(self, connection: Connection, method: str, path: str, body: object) -> bytes:
        connection.send(request(method, path, {}, json.dumps(body).encode()))
        status, _, answer = connection.answer()
        if status >= 300:
            self.problems.append(f"{method} {path}: {status} {answer[:200].decode()}")
        return answer

    def every(self, seconds: float, work: Callable[[Connection, int], None]) -> threading.Thread:
        """Do `work` so often until the end, on a connection of its own."""

        def keep_on() -> None:
            connection, began, count = Connection(self.port), time.perf_counter(), 0
            while not self.ended.wait(max(0.0, began + count * seconds - time.perf_counter())):
                count += 1
                work(connection, count)

        return threading.Thread(target=keep_on)

    def prepare(self) -> None:
        """Make what the load needs."""
        self.catalog.make_namespace("bench")
        self.catalog.make_table("bench", "committed")

    def start(self) -> list[threading.Thread]:
        """Begin to send, beside the caller."""
        threads = [
            self.every(_EVENTS_EVERY_S, self.event),
            self.every(_DDL_EVERY_S, partial(self.ddl, self)),
            self.every(_COMMIT_EVERY_S, self.commit),
            self.every(_LOOK_EVERY_S, self.look),
        ]
        for thread in threads:
            thread.start()
        return threads

    def event(self, connection: Connection, count: int) -> None:
        name = f"{self.name}-{count}"
        self.pending[name] = time.perf_counter()
        self.send(connection, "POST", "/api/v1/events", [execution_started(name, count)])

    def commit(self, connection: Connection, count: int) -> None:
        change = {"action": "set-properties", "updates": {"count": str(count)}}
        body = {"requirements": [], "updates": [change]}
        self.send(connection, "POST", f"{self.catalog.tables('bench')}/committed", body)

    def look(self, connection: Connection, _count: int) -> None:
        """Look which events compaction has published."""
        if not self.pending:
            return
        names = ", ".join(f"'{name}'" for name in list(self.pending))
        sql = f"SELECT execution_id FROM system.executions WHERE execution_id IN ({names})"
        answer = self.send(connection, "POST", "/api/v1/query", {"sql": sql})
        now = time.perf_counter()
        for [name] in json.loads(answer)["rows"]:
            self.seen_s.append(now - self.pending.pop(name))


def _iceberg_ddl(load: _Load, connection: Connection, count: int) -> None:
    load.send(connection, "POST", load.catalog.tables("bench"), new_table(f"t{count}"))


def _native_ddl(load: _Load, connection: Connection, count: int) -> None:
    """A new schema, a new table in it, a comment on that, by turns."""
    turn, schemas = (count - 1) % 3, "/api/v1/catalogs/default/schemas"
    schema = f"s{(count - 1) // 3}"
    if turn == 0:
        load.send(connection, "POST", schemas, {"name": schema})
    elif turn == 1:
        columns = [{"name": name, "data_type": "bigint"} for name in ("id", "amount", "kind")]
        table = {"name": "t", "format": "PARQUET", "columns": columns}
        load.send(connection, "POST", f"{schemas}/{schema}/tables", table)
    else:
        load.send(connection, "PATCH", f"{schemas}/{schema}/tables/t", {"comment": f"{count}"})


async def run(runtime: Runtime) -> list[Figure]:
    """Measure on a store of its own."""
    return await runtime.tasks.in_thread(_measure)


def _measure() -> list[Figure]:
    with running_server() as store, _credentials():
        url = f"s3://arco/pacing?endpoint={store.s3_endpoint}"
        with arco_up(url, "--log-level", "warning", spark=True) as server:
            started = time.perf_counter()
            catalog = Catalog(server, "/iceberg")
            iceberg = _Load(server.port, catalog, "run", _iceberg_ddl)
            iceberg.prepare()
            _until_compacted(iceberg)
            time.sleep(max(0.0, started + _RECONCILED_S - _WARM_S - time.perf_counter()))
            figures = _figures("DDL", _count(iceberg, store, server.pid, _SECONDS))
            native = _Load(server.port, catalog, "native", _native_ddl)
            return figures + _figures("native DDL", _count(native, store, server.pid, _SECONDS / 2))


@dataclass(frozen=True)
class _Cost:
    """What a load has cost."""

    requests_a_second: float
    cores: float
    seen_p95_s: float


def _count(load: _Load, store: RunningServer, server: int, seconds: float) -> _Cost:
    """Send a load for a while, and count."""
    threads = load.start()
    time.sleep(_WARM_S)
    before, cpu_s, began = store.names(), _spark_cpu_s(server), time.perf_counter()
    load.seen_s.clear()
    time.sleep(seconds)
    took_s = time.perf_counter() - began
    names = Counter(store.names()) - Counter(before)
    cores = (_spark_cpu_s(server) - cpu_s) / took_s
    load.ended.set()
    for thread in threads:
        thread.join()
    if load.problems:
        raise AssertionError(load.problems[:3])
    _print_names(names, took_s)
    return _Cost(names.total() / took_s, cores, percentile(load.seen_s, 0.95))


def _figures(ddl: str, cost: _Cost) -> list[Figure]:
    return [
        Figure(
            f"6 events, 1.2 {ddl}, 0.3 commits a second: requests to the store a second",
            f"{cost.requests_a_second:.1f}",
            promised="15",
            met=cost.requests_a_second <= 15,
        ),
        Figure(
            "  cores for compaction", f"{cost.cores:.2f}", promised="0.15", met=cost.cores <= 0.15
        ),
        Figure(
            "  seen by SQL after, p95 s",
            f"{cost.seen_p95_s:.2f}",
            promised="6 s",
            met=cost.seen_p95_s <= 6,
        ),
    ]


def _until_compacted(load: _Load) -> None:
    """Send one event, and wait until Spark has started and published it."""
    connection, until = Connection(load.port), time.perf_counter() + _START_S
    load.event(connection, 0)
    while load.pending:
        load.look(connection, 0)
        if load.problems or time.perf_counter() > until:
            raise AssertionError(f"no event was compacted in {_START_S} s: {load.problems}")
        time.sleep(0.5)


@contextmanager
def _credentials() -> Iterator[None]:
    """What the server of the benchmark takes for a key; restored afterwards."""
    own = {"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench", "AWS_REGION": "none"}
    before = {name: os.environ.get(name) for name in own}
    os.environ.update(own)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _spark_cpu_s(server: int) -> float:
    """The processor time of the child that compacts, of its JVM and of Spark's workers."""
    tree = process_tree(server)
    compacting = {pid for pid in tree if b"tier2-worker" in _command(pid)}
    first = [pid for pid in compacting if tree[pid].parent not in compacting]
    return sum(cpu_s(pid) for pid in first)


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:  # it ended in between
        return b""


def _print_names(names: Counter[tuple[str, str]], seconds: float) -> None:
    """Which objects the requests were about."""
    kinds: Counter[str] = Counter()
    for (verb, name), count in names.items():
        below = re.sub(r"^.*?workspace=[^/]*/", "", name)
        kind = re.sub(r"[0-9A-Za-z_-]*\d[0-9A-Za-z_.-]*", "*", below)
        kinds[f"{verb} {kind}"] += count
    for kind, count in kinds.most_common(40):
        print(f"{count / seconds:8.2f}/s  {kind}", file=sys.stderr)
