"""The fault script: which requests a rule strikes."""

import msgspec
import pytest

from tests.faults.operation import Delete, Get, List, Operation, Put, Verb
from tests.faults.script import Fault, Rule, Script


def put(key: str) -> Put:
    return Put(bucket="b", key=key, body=b"")


def struck(script: Script, operations: list[Operation]) -> list[bool]:
    return [script.pick(operation) is not None for operation in operations]


def test_a_rule_strikes_its_verb_and_its_keys_only() -> None:
    script = Script()
    script.add(Rule(fault=Fault.ERROR_AFTER, verb=Verb.PUT, key="manifest/"))
    assert struck(
        script, [put("a/manifest/1"), put("a/ledger/1"), Get(bucket="b", key="a/manifest/1")]
    ) == [True, False, False]


def test_a_key_can_be_a_regular_expression() -> None:
    script = Script()
    script.add(Rule(fault=Fault.ERROR_AFTER, key_regex=r"/\d{20}$"))
    assert struck(script, [put("c/" + "0" * 20), put("c/head.json")]) == [True, False]


def test_a_delete_of_many_is_struck_for_any_of_its_keys() -> None:
    script = Script()
    script.add(Rule(fault=Fault.DROP_AFTER, verb=Verb.DELETE, key="b"))
    assert script.pick(Delete(bucket="x", keys=("a", "b"))) is not None
    assert script.pick(Delete(bucket="x", keys=("a", "c"))) is None


def test_a_listing_is_matched_by_its_prefix() -> None:
    script = Script()
    script.add(Rule(fault=Fault.THROTTLED, verb=Verb.LIST, key="ledger/"))
    assert script.pick(List(bucket="x", prefix="t/ledger/")) is not None
    assert script.pick(List(bucket="x", prefix="t/")) is None


def test_a_rule_strikes_after_those_it_skips_and_as_often_as_it_says() -> None:
    script = Script()
    script.add(Rule(fault=Fault.DROP_BEFORE, skip=2, times=2))
    assert struck(script, [put("a")] * 6) == [False, False, True, True, False, False]


def test_the_first_rule_that_strikes_wins() -> None:
    script = Script()
    script.add(Rule(fault=Fault.THROTTLED, times=1), Rule(fault=Fault.HANG))
    picked = [script.pick(put("a")), script.pick(put("a"))]
    assert [rule.fault for rule in picked if rule] == [Fault.THROTTLED, Fault.HANG]


def test_chance_repeats_with_its_seed() -> None:
    def run(seed: int) -> list[bool]:
        script = Script(seed=seed)
        script.add(Rule(fault=Fault.THROTTLED, probability=0.3))
        return struck(script, [put("a")] * 1000)

    assert run(7) == run(7)
    assert run(7) != run(8)
    assert 200 < sum(run(7)) < 400


def test_a_misspelt_rule_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'{"fault": "drop_after", "verbs": "put"}', type=Rule)
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'{"fault": "drop_afterwards"}', type=Rule)
