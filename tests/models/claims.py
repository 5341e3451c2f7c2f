"""The claims and outcomes of one idempotency key over one target chain (P10 to P13).

Every handler serves the same request and may take over at any time. Foreign requests turn the
target to and fro, so that the request is valid at one number and refused at the next. A crash
needs no separate step: it is a handler that is never scheduled again, and its creates arrive
whether it is or not.
"""

from collections.abc import Hashable, Iterator

from tests.models.claims_handler import act
from tests.models.claims_store import (
    DONE,
    FOREIGN,
    MINE,
    PAST,
    REFUSED,
    Create,
    Handler,
    Key,
    arrive,
    outcome,
)
from tests.models.explorer import Model
from tests.models.rules import ClaimRules


class ClaimModel(Model[Key]):
    def __init__(
        self,
        rules: ClaimRules | None = None,
        handlers: int = 2,
        foreign: int = 2,
        most_claims: int = 3,
    ) -> None:
        self.rules = rules or ClaimRules()
        self.handlers = handlers
        self.foreign = foreign
        self.most_claims = most_claims

    def initial(self) -> Key:
        handlers = (Handler(),) * self.handlers
        return Key((), "", (PAST,), 0, handlers, frozenset(), frozenset())

    def violation(self, key: Key) -> str | None:
        if key.target.count(MINE) > 1:
            return "the request was applied twice"
        if DONE in key.answers and REFUSED in key.answers:
            return "the same key was answered 2xx and 4xx"
        if REFUSED in key.answers and MINE in key.target:
            return "refused, but it landed"
        if DONE in key.answers and MINE not in key.target:
            return "answered 2xx, but it did not land"
        return None

    def form(self, key: Key) -> Hashable:
        """Handlers are alike: each is distinguished by what it does and by the claims in its name."""
        portraits = []
        for index, handler in enumerate(key.handlers):
            name = f"h{index}"
            claimed = tuple(number for number, body in enumerate(key.numbers) if body == name)
            late_numbers = tuple(
                sorted(create.number for create in key.in_flight if create.body == name)
            )
            portraits.append((handler, claimed, late_numbers))
        portraits.sort()
        nameless = frozenset(
            create for create in key.in_flight if create.body in (MINE, DONE, REFUSED)
        )
        shared = (len(key.numbers), outcome(key), key.target, key.turns, key.answers, nameless)
        return (tuple(portraits), shared)

    def steps(self, key: Key) -> Iterator[tuple[str, Key]]:
        for index, handler in enumerate(key.handlers):
            name, before, after = f"h{index}", key.handlers[:index], key.handlers[index + 1 :]
            for label, changed, result in act(self.rules, self.most_claims, key, handler, name):
                yield f"{name} {label}", result._replace(handlers=(*before, changed, *after))
        for late_create in key.in_flight:
            forgotten = key._replace(in_flight=key.in_flight - {late_create})
            arrived = arrive(forgotten, late_create, self.rules)
            chain_name = "target" if late_create.on_target else "key"
            yield f"the late create of {chain_name} {late_create.number} arrives", arrived
        if key.turns < self.foreign:
            yield self._foreign(key)

    def _foreign(self, key: Key) -> tuple[str, Key]:
        turned = key._replace(turns=key.turns + 1)
        if self.rules.verdict_from_target:
            create = Create(on_target=True, number=len(key.target), body=FOREIGN)
            turned = arrive(turned, create, self.rules)
        return f"a foreign request {'mends' if key.turns % 2 else 'breaks'} the target", turned
