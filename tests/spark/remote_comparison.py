"""A program that folds and merges a history on a Spark that is elsewhere, and compares the rows.

It runs in a separate process, as a process has one session of Spark. It ends with the figures as JSON.
"""

import argparse
import asyncio
import json

from arco.compactor.engine import CompactionEngine
from arco.compactor.spark.engine import JobSizes, SparkEngine
from arco.compactor.spark.session import open_session
from arco.core.runtime import Runtime, system_runtime
from arco.core.scope import Scope
from arco.storage.address import parse_address
from arco.storage.open import make_store_spec
from arco.storage.roles import Role
from tests.compactor.engine_contract import DOMAIN, EngineSetup
from tests.compactor.histories import expected, merge_parts
from tests.compactor.in_process_engine import InProcessEngine
from tests.stores import open_bench

SIZES = JobSizes(small=1_000, task=200_000, shard=500_000)


async def compare(
    engine: CompactionEngine, url: str, runtime: Runtime, lines: int
) -> dict[str, int]:
    stores = open_bench(url, runtime)
    store = stores.store(Role.COMPACTOR)
    remote_setup = EngineSetup(stores.store(Role.API), store, engine)
    local_setup = EngineSetup(stores.store(Role.API), store, InProcessEngine(store))
    segments = await remote_setup.segments(1, lines=lines, each=20)
    print("begun", flush=True)
    files = await remote_setup.fold(segments)
    reported = expected(DOMAIN, segments)
    assert await remote_setup.rows(*files) == reported
    assert await local_setup.rows(*await local_setup.fold(segments)) == reported
    base = (await remote_setup.merge(merge_parts(files, into_base=True))).files
    assert await remote_setup.rows(*base) == reported
    return {"rows": sum(map(len, reported.values())), "files": len(files), "base": len(base)}


def main() -> None:
    flags = argparse.ArgumentParser()
    flags.add_argument("--master", default="local[2]")
    flags.add_argument("--remote")
    flags.add_argument("--url", required=True)
    flags.add_argument("--lines", type=int, default=3_000)
    arguments = flags.parse_args()
    runtime = system_runtime()
    session = open_session(arguments.master, arguments.remote)
    spec = make_store_spec(parse_address(arguments.url), Scope(), fsync=False)
    engine = SparkEngine(session, spec, runtime, SIZES)
    print(
        json.dumps(asyncio.run(compare(engine, arguments.url, runtime, arguments.lines))),
        flush=True,
    )
    session.stop()


if __name__ == "__main__":
    main()
