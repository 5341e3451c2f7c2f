"""Mutants of the store and its chains: each takes out one rule, and the chain scenario must notice."""

from .mutants import Mutant

CHAIN_MUTANTS = (
    Mutant(
        name="no own-write look",
        rule="law 8",
        target="arco.storage.retry:RetryingBackend.create",
        old="except AlreadyExists:\n            pass",
        new='except AlreadyExists:\n            raise Conflict("taken")',
    ),
    Mutant(
        name="no create_id",
        rule="P1",
        target="arco.storage.entry:make_entry",
        old="create_id=new_ulid(runtime)",
        new='create_id="one for all"',
    ),
    Mutant(
        name="giving up means no",
        rule="P2",
        target="arco.storage.retry:RetryingBackend.create",
        old='raise Unknown(f"could not find out whether {key} was created")',
        new='raise Unavailable(f"could not create {key}")',
    ),
    Mutant(
        name="no floor",
        rule="P6",
        target="arco.storage.chain_gc:collect",
        old="await chain.raise_floor(target)",
        new="pass",
    ),
    Mutant(
        name="floor not read after the miss",
        rule="P6",
        target="arco.storage.chain:Chain._search",
        old="newer = await self._newest_floor(floor)",
        new="newer = floor",
    ),
    Mutant(
        name="a remembered head never grows old",
        rule="P7",
        target="arco.storage.chain:Chain._is_fresh",
        old="self._clock.elapsed_ms() - head.seen_ms < FRESH_MS",
        new="True",
    ),
    Mutant(
        name="a search that slept is trusted",
        rule="P7",
        target="arco.storage.chain:Chain.head",
        old="        if self._is_fresh(remembered):\n",
        new="        if True:\n",
    ),
    Mutant(
        name="a sleeper trusts its create",
        rule="P7",
        target="arco.storage.chain:Chain.append",
        old="        raise\n    await self._refuse_sleeper(after, entry.number)\n",
        new="        raise\n",
    ),
    Mutant(
        name="a sleeper trusts its loss",
        rule="P7",
        target="arco.storage.chain:Chain.append",
        old="        await self._refuse_sleeper(after, entry.number)\n        raise\n",
        new="        raise\n",
    ),
    Mutant(
        name="numbers go when they are young",
        rule="P9",
        target="arco.storage.chain_gc:_bounds",
        old="- retention_ms",
        new="- retention_ms // 12",
    ),
    Mutant(
        name="ages by the janitor's own clock",
        rule="P9",
        target="arco.storage.chain_gc:_bounds",
        old="await store_now_ms(chain.store)",
        new="chain.store.runtime.clock.now_ms()",
    ),
)
