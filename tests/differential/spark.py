"""Seeds on Spark: the same life of a domain, with an engine that works in other processes."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from arco.core.runtime import Runtime
from arco.core.scope import Scope
from arco.fold.tier2 import EXECUTIONS_DOMAIN, LINEAGE_DOMAIN, SEARCH_DOMAIN
from arco.storage.address import parse_address
from arco.storage.open import make_store_spec
from tests.differential.comparison import reference
from tests.differential.environment import Site, new_site
from tests.differential.history import history_of
from tests.differential.lifecycle import Pace, aged, compacted
from tests.differential.seed import Result

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DOMAINS = (EXECUTIONS_DOMAIN, EXECUTIONS_DOMAIN, EXECUTIONS_DOMAIN, LINEAGE_DOMAIN, SEARCH_DOMAIN)
_EVERY_AGED, _EVERY_REBUILT = 4, 10


@dataclass(frozen=True)
class SparkSites:
    """Sites of one session, each in a folder of its own."""

    session: "SparkSession"
    runtime: Runtime
    root: Path

    def site(self, rng: Random, name: str) -> Site:
        """In one task a job, or in stages, with a shuffle in between."""
        from arco.compactor.spark.engine import JobSizes, SparkEngine

        url = str(self.root / name)
        spec = make_store_spec(parse_address(url), Scope(), fsync=False)
        sizes = rng.choice((JobSizes(), JobSizes(small=1, task=10_000, shard=60_000)))
        engine = SparkEngine(self.session, spec, self.runtime, sizes)
        return new_site(rng, url, lambda store: engine)


async def check_on_spark(seed: int, sites: SparkSites) -> Result:
    """What Spark publishes of a seed, against what this process makes of the same lines."""
    rng = Random(f"{seed}/spark")
    history = history_of(seed, _DOMAINS[seed % len(_DOMAINS)])
    tally = Counter({"histories": 1, "events": len(history.events)})
    site = sites.site(rng, f"seed-{seed}")
    # A job takes some tenths of a second, and a rebuild has many.
    pace = Pace(pause=0.1, most_segments=(4, 8_192), rebuilds=seed % _EVERY_REBUILT == 0)
    if seed % _EVERY_AGED == 1:
        problems = await aged(rng, site, history, tally, pace)
    else:
        problems = await compacted(rng, site, history, reference(history), tally, pace)
    return Result(seed, problems, tally)
