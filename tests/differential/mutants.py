"""The code with one rule taken out at a time; every one of these must be caught by some seed."""

from collections.abc import Iterable

from tests.differential.seed import Result, check_seed
from tests.sim.mutants import Mutant

_MUTANTS = (
    Mutant(
        name="order without rank",
        rule="P19",
        target="arco.events.projection:EventBatch.order",
        old="encode_orders(self.order_suffixes, causal, rank, sticky, beneath=beneath)",
        new="encode_orders(self.order_suffixes, causal, 0, sticky, beneath=beneath)",
    ),
    Mutant(
        name="order without what is causal",
        rule="P19",
        target="arco.events.projection:EventBatch.order",
        old="encode_orders(self.order_suffixes, causal, rank, sticky, beneath=beneath)",
        new="encode_orders(self.order_suffixes, 0, rank, sticky, beneath=beneath)",
    ),
    Mutant(
        name="cancel that does not stick",
        rule="P19",
        target="arco.events.projection:EventBatch.order",
        old="encode_orders(self.order_suffixes, causal, rank, sticky, beneath=beneath)",
        new="encode_orders(self.order_suffixes, causal, rank, 0, beneath=beneath)",
    ),
    Mutant(
        name="clock ahead of ours believed",
        rule="P19",
        target="arco.events.projection:EventBatch.of",
        old="at[index] = to_micros(lines[index].received_at)",
        new="pass",
    ),
    Mutant(
        name="orders that end with the id",
        rule="P19",
        target="arco.fold.fold:encode_order_suffixes",
        old="every.reshape(len(suffixes), -1)[:, 0]",
        new="np.void(bytes(8))",
    ),
    Mutant(
        name="row under the event's id",
        rule="P18",
        target="arco.events.quality:_result",
        old="line.idempotency_key",
        new="line.event_id",
    ),
    Mutant(
        name="fold that keeps the first",
        rule="law 7",
        target="arco.fold.fold:winners",
        old="highest = rule.keep in _HIGHEST",
        new="highest = rule.keep is MergeStrategy.MAX",
    ),
    Mutant(
        name="fold that keeps whoever comes last",
        rule="law 7",
        target="arco.fold.fold:winners",
        old="by = rule.order or rule.columns",
        new="by = () if rule.order else rule.columns",
    ),
    Mutant(
        name="late event folded",
        rule="P20",
        target="arco.events.read:_EventGroup.project",
        old="bounds.get(table.name, _NO_BOUND)",
        new="_NO_BOUND",
    ),
    Mutant(
        name="rebuild without the bounds of then",
        rule="P20",
        target="arco.compactor.rebuild:_Rebuild._fold",
        old="retained_from=bounds",
        new="retained_from={}",
    ),
    Mutant(
        name="tail that does not reach the base's rows",
        rule="law 7",
        target="arco.query.state_files:merge",
        old="stale.append(file.rows.filter(touched))",
        new="folded.append(file.rows.filter(touched))",
    ),
    Mutant(
        name="merge that leaves the old base out",
        rule="P26",
        target="arco.compactor.tail_merge:plan_base_parts",
        old="if int(bucket) in buckets",
        new="if int(bucket) in ()",
    ),
)

MUTANTS = {mutant.name: mutant for mutant in _MUTANTS}
# Only a life of a domain shows these.
_LIVED = ("arco.compactor.", "arco.query.")


def first_catch(mutant: Mutant, seeds: Iterable[int]) -> Result | None:
    """The first seed that notices the mutant."""
    lived = mutant.target.startswith(_LIVED)
    with mutant.applied():
        for seed in seeds:
            result = check_seed(seed, everything=lived)
            if result.problems:
                return result
    return None
