"""Thirty-two writers on one chain, on a store that takes one write a second to a name and fails 5 %.

The baseline is what that rule leaves of a single mutable head: one name, overwritten by everybody.
"""

import os
import time
from uuid import uuid4

from arco.core.errors import ArcoError, Unavailable
from arco.core.runtime import Runtime
from arco.core.scope import Scope
from arco.storage.address import parse_address
from arco.storage.backend import Backend
from arco.storage.chain import Chain, Head
from arco.storage.open import open_backend
from arco.storage.roles import Role
from arco.storage.store import Store
from bench.figure import Figure, percentile
from tests.faults.operation import Verb
from tests.faults.running import running_server
from tests.faults.script import Fault, Rule

_WRITERS = 32
_SECONDS = 20.0
_LONGEST_WAIT_S = 30.0


async def run(runtime: Runtime) -> list[Figure]:
    """Measure the mutable head first, then the chain, against the same server."""
    os.environ.setdefault("AWS_ACCESS_KEY_ID", "bench")
    os.environ.setdefault("AWS_SECRET_ACCESS_KEY", "bench")
    with running_server(writes_per_second_per_name=1.0) as server:
        server.script.add(
            *(
                Rule(fault=fault, verb=verb, probability=0.025)
                for fault in (Fault.UNAVAILABLE_BEFORE, Fault.THROTTLED)
                for verb in (Verb.PUT, Verb.GET)
            ),
            Rule(fault=Fault.ERROR_AFTER, verb=Verb.PUT, probability=0.01),
        )
        url = f"s3://bench/{uuid4().hex}?endpoint={server.s3_endpoint}"
        backend = open_backend(parse_address(url), runtime)
        baseline = await _mutable_head(runtime, backend)
        started = time.perf_counter()
        waits_s, errors, numbers = await _chain(runtime, backend)
        rate = len(waits_s) / (time.perf_counter() - started)
    is_complete = numbers == len(waits_s)
    met = rate >= 10 and not errors and is_complete and max(waits_s) <= _LONGEST_WAIT_S
    return [
        Figure(
            "chain append, 32 writers, 1 write/s a name, 5 % 503/429, commits/s",
            f"{rate:.1f}",
            f"{baseline:.1f}",
            f"{rate / baseline:.0f} x",
            "10 x the rule",
            met,
        ),
        Figure(
            "  wait p50 / p99 / longest, s",
            f"{percentile(waits_s, 0.5):.2f} / {percentile(waits_s, 0.99):.2f} / {max(waits_s):.2f}",
            promised="30 s",
            met=max(waits_s) <= _LONGEST_WAIT_S,
        ),
        Figure("  errors surfaced", str(errors), promised="0", met=errors == 0),
        Figure(
            "  numbers in the chain / acknowledged", f"{numbers} / {len(waits_s)}", met=is_complete
        ),
    ]


async def _chain(runtime: Runtime, backend: Backend) -> tuple[list[float], int, int]:
    started = time.perf_counter()
    waits_s: list[float] = []
    errors = 0

    async def writer(number: int) -> None:
        nonlocal errors
        chain = Chain(_store(runtime, backend), "manifests/catalog")

        async def build(_: Head) -> dict[str, int]:
            return {"writer": number}

        while time.perf_counter() - started < _SECONDS:
            asked = time.perf_counter()
            try:
                await chain.extend(build)
            except ArcoError:
                errors += 1
            waits_s.append(time.perf_counter() - asked)

    await runtime.tasks.gather(*(writer(n) for n in range(_WRITERS)))
    head = await Chain(_store(runtime, backend), "manifests/catalog").head()
    return waits_s, errors, head.number + 1


async def _mutable_head(runtime: Runtime, backend: Backend) -> float:
    """Accepted overwrites of one name a second, by as many writers."""
    seconds, accepted = 5.0, 0
    started = time.perf_counter()

    async def writer() -> None:
        nonlocal accepted
        while time.perf_counter() - started < seconds:
            try:
                await backend.put("mutable/head.json", b"{}")
                accepted += 1
            except Unavailable:
                await runtime.clock.sleep(50)

    await runtime.tasks.gather(*(writer() for _ in range(_WRITERS)))
    return accepted / seconds


def _store(runtime: Runtime, backend: Backend) -> Store:
    return Store(backend, runtime, scope=Scope(), role=Role.COMPACTOR)
