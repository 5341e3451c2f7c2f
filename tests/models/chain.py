"""A numbered chain with floors (P1, P2, P5 to P7): writers, a janitor and time.

The first writer remembers the head, the others start cold. The first may crash once: it goes on
with its next append and an empty memory. Anyone may stall anywhere, because every interleaving is
explored. Time is counted in ticks, of which the retention is two.
"""

from collections.abc import Iterator

from tests.models.chain_store import (
    ABSENT,
    NOWHERE,
    PAST,
    RETENTION_TICKS,
    Chain,
    Writer,
    cold_read,
    collect,
    create,
    head,
    op_of,
    tick,
)
from tests.models.chain_writer import act, turn
from tests.models.explorer import Model
from tests.models.rules import ChainRules


class ChainModel(Model[Chain]):
    def __init__(
        self,
        rules: ChainRules | None = None,
        appends: tuple[int, ...] = (1, 2),
    ) -> None:
        self.rules = rules or ChainRules()
        self.appends = appends

    def initial(self) -> Chain:
        writers = tuple(
            Writer(
                "rest",
                op_of(index, 0),
                op_of(index, count - 1),
                low=NOWHERE if index else 0,
                may_crash=index == 0,
            )
            for index, count in enumerate(self.appends)
        )
        room = 3 + sum(self.appends)  # a weakened writer may skip a number
        store = (PAST,) + (ABSENT,) * (room - 1)
        ages = (RETENTION_TICKS,) + (0,) * (room - 1)
        return Chain(store, store, ages, 0, writers, frozenset(), frozenset())

    def violation(self, chain: Chain) -> str | None:
        for op in chain.acked:
            if op not in chain.log:
                return "fork" if op in chain.store else "an acknowledged append is lost"
        written = [op for op in chain.log if op]
        if len(written) != len(set(written)):
            return "an append was applied twice"
        if any(writer.doing == "misled" for writer in chain.writers):
            return "a search ended below the head"
        if cold_read(chain) != head(chain):
            return "a cold reader does not find the head"
        return None

    def steps(self, chain: Chain) -> Iterator[tuple[str, Chain]]:
        for index, writer in enumerate(chain.writers):
            before, after = chain.writers[:index], chain.writers[index + 1 :]
            for label, changed, result in act(self.rules, chain, writer):
                yield f"w{index} {label}", result._replace(writers=(*before, changed, *after))
            if writer.may_crash:
                crashed = turn(writer, NOWHERE)._replace(may_crash=False)
                yield f"w{index} crashes", chain._replace(writers=(*before, crashed, *after))
        for number, op in chain.in_flight:
            arrived = create(chain, number, op)._replace(in_flight=chain.in_flight - {(number, op)})
            yield f"the late create of {number} with op {op} arrives", arrived
        yield from self._janitor(chain)
        yield "time passes", tick(chain)

    def _janitor(self, chain: Chain) -> Iterator[tuple[str, Chain]]:
        for number in range(chain.floor + 1, head(chain) + 1):
            if chain.ages[number] < RETENTION_TICKS:
                continue
            if self.rules.floor:
                yield f"janitor raises the floor to {number}", chain._replace(floor=number)
            elif chain.store[number - 1]:
                yield f"janitor collects {number - 1}", collect(chain, number - 1)
        for number in range(chain.floor):
            if chain.store[number]:
                yield f"janitor collects {number}", collect(chain, number)
