"""Every model that is explored: the sound ones, and each with one rule weakened.

The bounds are the smallest that show each counterexample, and for the sound models the largest
that a test run can wait for.
"""

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from functools import partial
from typing import TypeVar

from tests.models.chain import ChainModel
from tests.models.claims import ClaimModel
from tests.models.explorer import Exploration, explore
from tests.models.names import NameModel
from tests.models.rules import ChainRules, ClaimRules, NameRules, StreamRules, TransactionRules
from tests.models.streams import StreamModel
from tests.models.transactions import HANDLERS, WRITERS, TransactionModel

Run = Callable[[], Exploration]
Rules = TypeVar("Rules", ChainRules, ClaimRules, StreamRules, TransactionRules, NameRules)

# Two appends by each of two writers: they need a successor's successor to be collected.
LONG_CHAINS = ("head_dated_by_its_miss", "own_head_dated_by_its_send")

# What only a second handler of a keyed request can break.
TAKEOVERS = (
    "new_id_for_each_takeover",
    "every_pass_disowned",
    "claim_checked_each_pass",
)


def sound() -> dict[str, Run]:
    return {
        "chain, 2 writers": partial(explore, ChainModel()),
        "claims, 3 handlers": partial(explore, ClaimModel(handlers=3, foreign=3, most_claims=4)),
        "streams": partial(explore, StreamModel()),
        "transactions, 3 writers": partial(explore, TransactionModel()),
        "transactions, takeover": partial(explore, TransactionModel(roles=HANDLERS)),
        "names": partial(explore, NameModel()),
    }


def weakened() -> dict[str, Run]:
    runs: dict[str, Run] = {}
    for rule, chain in _each_rule_off(ChainRules()):
        appends = (2, 2) if rule in LONG_CHAINS else (1, 2)
        runs[f"chain.{rule}"] = partial(explore, ChainModel(chain, appends))
    for rule, claims in _each_rule_off(ClaimRules()):
        runs[f"claims.{rule}"] = partial(explore, ClaimModel(claims))
    for rule, streams in _each_rule_off(StreamRules()):
        runs[f"streams.{rule}"] = partial(explore, StreamModel(streams))
    for rule, transactions in _each_rule_off(TransactionRules()):
        roles = HANDLERS if rule in TAKEOVERS else WRITERS
        model = TransactionModel(transactions, roles)
        runs[f"transactions.{rule}"] = partial(explore, model)
    for rule, names in _each_rule_off(NameRules()):
        runs[f"names.{rule}"] = partial(explore, NameModel(names))
    return runs


def _each_rule_off(rules: Rules) -> Iterator[tuple[str, Rules]]:
    for field in fields(rules):
        yield field.name, replace(rules, **{field.name: False})
