"""A program that folds and merges a history on a Spark that is elsewhere, and compares the rows.

It is a process of its own, as a process has one session of Spark. It ends with the figures as JSON.
"""

import argparse
import asyncio
import json

from arco.compactor.engine import CompactionEngine
from arco.compactor.spark.engine import JobSizes, SparkEngine
from arco.compactor.spark.session import open_session
from arco.compactor.spark.store_spec import make_store_spec
from arco.core.runtime import Runtime, system_runtime
from arco.core.scope import Scope
from arco.storage.address import parse_address
from arco.storage.roles import Role
from tests.compactor.engine_claims import DOMAIN, Floor
from tests.compactor.histories import expected, merge_parts
from tests.compactor.in_process_engine import InProcessEngine
from tests.stores import open_bench

SIZES = JobSizes(small=1_000, task=200_000, shard=500_000)


async def compare(
    engine: CompactionEngine, url: str, runtime: Runtime, lines: int
) -> dict[str, int]:
    stores = open_bench(url, runtime)
    store = stores.store(Role.COMPACTOR)
    there = Floor(stores.store(Role.API), store, engine)
    here = Floor(stores.store(Role.API), store, InProcessEngine(store))
    segments = await there.segments(1, lines=lines, each=20)
    print("begun", flush=True)
    files = await there.fold(segments)
    told = expected(DOMAIN, segments)
    assert await there.rows(*files) == told
    assert await here.rows(*await here.fold(segments)) == told
    base = (await there.merge(merge_parts(files, into_base=True))).files
    assert await there.rows(*base) == told
    return {"rows": sum(map(len, told.values())), "files": len(files), "base": len(base)}


def main() -> None:
    flags = argparse.ArgumentParser()
    flags.add_argument("--master", default="local[2]")
    flags.add_argument("--remote")
    flags.add_argument("--url", required=True)
    flags.add_argument("--lines", type=int, default=3_000)
    asked = flags.parse_args()
    runtime = system_runtime()
    session = open_session(asked.master, asked.remote)
    spec = make_store_spec(parse_address(asked.url), Scope(), fsync=False)
    engine = SparkEngine(session, spec, runtime, SIZES)
    print(json.dumps(asyncio.run(compare(engine, asked.url, runtime, asked.lines))), flush=True)
    session.stop()


if __name__ == "__main__":
    main()
