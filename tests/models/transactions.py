"""Commits to two tables at once, beside commits to one (P33).

Either table's chain is a list of versions; one that names a transaction counts once the outcome
says committed, and before that what it stands on. A keyed request has two handlers, of which the
second may take over at any time. A crash needs no separate step: it is a handler that is never
scheduled again, and its creates arrive whether it is or not.
"""

from collections.abc import Hashable, Iterator

from tests.models.explorer import Model
from tests.models.rules import TransactionRules
from tests.models.transactions_party import Actor, Role, read
from tests.models.transactions_store import (
    COMMITTED,
    DONE,
    REFUSED,
    Catalog,
    Party,
    Pointer,
    Reader,
    append,
    decide,
    effective,
    outcome,
    touches,
)

EITHER = ((0,), (1,))
WRITERS = (
    Role("v", "v", most_passes=2, may_time_out=True),
    Role("w", "w"),
    Role("s", "s", tables=EITHER),
)
# One request with a key, served by two handlers, that must not follow a commit to table 1.
HANDLERS = (
    Role("h", "r", keyed=True, refused_after="s1", most_passes=2, may_time_out=True),
    Role("k", "r", keyed=True, refused_after="s1"),
    Role("s", "s", tables=EITHER),
)


class TransactionModel(Model[Catalog]):
    def __init__(
        self,
        rules: TransactionRules | None = None,
        roles: tuple[Role, ...] = WRITERS,
        most_claims: int = 2,
    ) -> None:
        self.rules = rules or TransactionRules()
        self.actors = [Actor(self.rules, role, most_claims) for role in roles]

    def initial(self) -> Catalog:
        empty = (Pointer("past", ()),)
        parties = (Party(),) * len(self.actors)
        in_flight, answers = frozenset[str](), frozenset[tuple[str, str]]()
        return Catalog(
            (empty, empty), frozenset(), (), parties, Reader(), frozenset(), in_flight, answers
        )

    def form(self, catalog: Catalog) -> Hashable:
        """Of what is buried in a chain only who wrote it can still be asked."""
        chains = tuple(
            (chain[-1], tuple(pointer.by for pointer in chain)) for chain in catalog.chains
        )
        return (chains, *catalog[1:])

    def violation(self, catalog: Catalog) -> str | None:
        ops_by_table = [effective(catalog, table) for table in (0, 1)]
        if any(len(ops) != len(set(ops)) for ops in ops_by_table):
            return "a commit was applied twice"
        if any(
            op.isalpha() and op not in ops_by_table[1 - table]
            for table in (0, 1)
            for op in ops_by_table[table]
        ):
            return "half a transaction is seen"
        if catalog.reader.misled:
            return "a reader no longer sees what it was shown"
        if any(party.doing == "hopeless" for party in catalog.parties):
            return "no retry can ever succeed"
        if self.rules.undecided_head_respected and self._buried(catalog):
            return "an undecided version was built upon"
        return self._broken_answer(catalog, ops_by_table)

    def _buried(self, catalog: Catalog) -> bool:
        return any(
            pointer.transaction and not outcome(catalog, pointer.transaction)
            for chain in catalog.chains
            for pointer in chain[:-1]
        )

    def _broken_answer(self, catalog: Catalog, ops_by_table: list[tuple[str, ...]]) -> str | None:
        for op, status in catalog.answers:
            landed = [op in ops_by_table[table] for table in (0, 1) if touches(op, table)]
            if status == DONE and not all(landed):
                return "an acknowledged commit is lost"
            if status == REFUSED and any(landed):
                return "refused, but it landed"
        return None

    def steps(self, catalog: Catalog) -> Iterator[tuple[str, Catalog]]:
        for index, (actor, party) in enumerate(zip(self.actors, catalog.parties, strict=True)):
            before, after = catalog.parties[:index], catalog.parties[index + 1 :]
            for label, changed, result in actor.act(catalog, party):
                yield (
                    f"{actor.role.name} {label}",
                    result._replace(parties=(*before, changed, *after)),
                )
        for late_create in catalog.in_flight:
            forgotten = catalog._replace(in_flight=catalog.in_flight - {late_create})
            arrived = append(forgotten, late_create.table, late_create.number, late_create.pointer)
            yield (
                f"the late create of {late_create.number} of table {late_create.table} arrives",
                arrived,
            )
        for transaction in catalog.late_commits:
            overwrite = not self.rules.outcome_put_if_absent
            committed = decide(catalog, transaction, COMMITTED, overwrite=overwrite)
            still_in_flight = committed.late_commits - {transaction}
            yield (
                f"the late commit of {transaction} arrives",
                committed._replace(late_commits=still_in_flight),
            )
        for label, reader in read(self.rules, catalog):
            yield label, catalog._replace(reader=reader)
