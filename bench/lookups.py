"""What it costs to find nothing, and to find the head of a chain."""

import time
from pathlib import Path
from tempfile import TemporaryDirectory

import obstore
from obstore.store import LocalStore

from arco.core.runtime import Runtime
from arco.core.scope import Scope
from arco.storage.backend import ObservedBackend
from arco.storage.chain import Chain, Head
from arco.storage.local import LocalBackend
from arco.storage.roles import Role
from arco.storage.store import Store
from bench.figure import Figure

_TIMES = 20_000
_LENGTH = 1_000


class _Counter:
    def __init__(self) -> None:
        self.requests = 0

    def request(self, verb: str, key: str, outcome: str, ms: float) -> None:
        del verb, key, outcome, ms
        self.requests += 1


async def run(runtime: Runtime, scratch: Path) -> list[Figure]:
    """Measure on one local directory."""
    with TemporaryDirectory(dir=scratch) as folder:
        backend = LocalBackend(Path(folder), runtime, fsync=False)
        return [
            await _missing(runtime, backend, folder),
            *await _heads(runtime, backend),
        ]


async def _missing(runtime: Runtime, backend: LocalBackend, folder: str) -> Figure:
    store = Store(backend, runtime, scope=Scope(), role=Role.COMPACTOR)
    await store.create("manifests/catalog/0.json", b"{}")
    key = f"manifests/catalog/{7:020d}.json"
    best_us = min([await _missing_us(store, key) for _ in range(5)])
    other = LocalStore(folder)
    peer_us = min([await _peer_us(other, Scope().prefix + key) for _ in range(3)])
    return Figure(
        "missing local GET, µs (baseline: obstore's LocalStore)",
        f"{best_us:.1f}",
        f"{peer_us:.0f}",
        f"1/{peer_us / best_us:.0f}",
        "20 µs",
        best_us <= 20,
    )


async def _missing_us(store: Store, key: str) -> float:
    started = time.perf_counter()
    for _ in range(_TIMES):
        await store.find(key)
    return (time.perf_counter() - started) / _TIMES * 1e6


async def _peer_us(store: LocalStore, key: str) -> float:
    started = time.perf_counter()
    for _ in range(_TIMES // 20):
        try:
            await obstore.get_async(store, key)
        except FileNotFoundError:
            continue
    return (time.perf_counter() - started) / (_TIMES // 20) * 1e6


async def _heads(runtime: Runtime, backend: LocalBackend) -> list[Figure]:
    counter = _Counter()
    watched = ObservedBackend(backend, counter, runtime.clock)
    store = Store(watched, runtime, scope=Scope(), role=Role.COMPACTOR)
    chain = Chain(store, "manifests/lineage")

    async def build(_: Head) -> dict[str, int]:
        return {}

    for _ in range(10):
        await chain.extend(build)
    await chain.close()
    counter.requests = 0
    await chain.head()
    remembered = counter.requests
    counter.requests = 0
    await Chain(store, "manifests/lineage").head()
    cold = counter.requests
    silent = Chain(store, "manifests/lineage", hinted=False)
    for _ in range(_LENGTH):
        await silent.extend(build)
    counter.requests = 0
    await Chain(store, "manifests/lineage").head()
    stale, bound = counter.requests, 2 * _LENGTH.bit_length() + 5
    return [
        Figure(
            "head of a chain, requests: remembered",
            str(remembered),
            promised="1",
            met=remembered == 1,
        ),
        Figure(
            "head of a chain, requests: cold, fresh hint", str(cold), promised="4", met=cold <= 4
        ),
        Figure(
            f"head of a chain, requests: hint {_LENGTH} behind",
            str(stale),
            f"{_LENGTH} one by one",
            f"1/{_LENGTH // stale}",
            "2 log2(gap) + 5",
            stale <= bound,
        ),
    ]
