import pytest

from tests.models.catalogue import sound, weakened
from tests.models.report import line

# What each rule prevents. A weakening that is caught for another reason has lost its point.
PREVENTED = {
    "chain.own_write_look": "an append was applied twice",
    "chain.create_id": "an acknowledged append is lost",
    "chain.predecessor_read": "a cold reader does not find the head",
    "chain.floor": "a cold reader does not find the head",
    "chain.floor_after_miss": "a search ended below the head",
    "chain.old_head_distrusted": "fork",
    "chain.head_dated_by_its_miss": "fork",
    "chain.own_head_dated_by_its_send": "fork",
    "chain.old_find_distrusted": "fork",
    "chain.old_loss_distrusted": "an append was applied twice",
    "claims.outcomes_numbered": "the same key was answered 2xx and 4xx",
    "claims.own_request_sought": "the same key was answered 2xx and 4xx",
    "claims.checked_above_claim": "the same key was answered 2xx and 4xx",
    "claims.taker_claims_first": "the same key was answered 2xx and 4xx",
    "claims.refusal_above_claim": "the same key was answered 2xx and 4xx",
    "claims.refusal_settled": "the same key was answered 2xx and 4xx",
    "claims.verdict_from_target": "the same key was answered 2xx and 4xx",
    "streams.create_before_ack": "an acknowledged event is never folded",
    "streams.predecessor_known": "an acknowledged event is never folded",
    "streams.unknown_leaves_stream": "an acknowledged event is never folded",
    "streams.ended_by_seal": "an acknowledged event is never folded",
    "streams.seal_kept": "an acknowledged event is never folded",
    "streams.old_seal_distrusted": "an event was folded twice",
    "streams.watermark_with_rows": "an event was folded twice",
    "transactions.undecided_head_respected": "half a transaction is seen",
    "transactions.outcome_put_if_absent": "an acknowledged commit is lost",
    "transactions.reader_never_falls_back": "a reader no longer sees what it was shown",
    "transactions.new_id_for_each_takeover": "no retry can ever succeed",
    "transactions.previous_is_effective": "half a transaction is seen",
    "transactions.every_pass_disowned": "a commit was applied twice",
    "transactions.claim_checked_each_pass": "a commit was applied twice",
    "transactions.all_tables_before_outcome": "half a transaction is seen",
    "names.undrop_pointer_first": "a name leads nowhere for ever",
    "names.release_only_if_born_before": "an acknowledged table is gone",
    "names.born_only_rises": "an acknowledged table is gone",
    "names.tombstone_first": "an acknowledged table is gone",
    "names.tombstone_ends_chain": "a dropped table lives on",
}


@pytest.mark.sim
@pytest.mark.parametrize("name", sound())
def test_a_protocol_with_all_its_rules_has_no_counterexample(name: str) -> None:
    exploration = sound()[name]()
    print(line(name, exploration))
    assert exploration.violation is None, exploration.trace
    assert exploration.states > 20_000, "too small a model to prove anything"


@pytest.mark.sim
@pytest.mark.parametrize("name", weakened())
def test_a_protocol_without_one_of_its_rules_has_a_counterexample(name: str) -> None:
    exploration = weakened()[name]()
    print(line(name, exploration))
    assert exploration.violation == PREVENTED[name], exploration.trace
    assert len(exploration.trace) == exploration.depth > 0


def test_every_rule_says_what_it_prevents() -> None:
    assert set(PREVENTED) == set(weakened())
