"""One handler of a commit to one table or to two, and a reader of both.

A commit to two tables puts a pointer that names its transaction on each, in order, and then lets
the outcome decide. A process that reads an undecided head aborts that transaction, or learns that it has
committed, and only then goes on.
"""

from collections.abc import Iterator
from typing import NamedTuple

from tests.models.rules import TransactionRules
from tests.models.transactions_store import (
    ABORTED,
    COMMITTED,
    DONE,
    REFUSED,
    Catalog,
    Doing,
    Ops,
    Party,
    Pointer,
    PointerInFlight,
    Reader,
    answer,
    append,
    decide,
    outcome,
    resolve,
    touches,
)

Act = tuple[str, Party, Catalog]


class Role(NamedTuple):
    """What a handler is for; two handlers of one keyed request have the same commit."""

    name: str
    op: str
    tables: tuple[tuple[int, ...], ...] = ((0, 1),)  # of which it takes one choice
    keyed: bool = False
    refused_after: str = ""  # the commit that its requirements do not stand
    most_passes: int = 1
    may_time_out: bool = False


class Actor:
    """A role under the rules: everything that its party could do next."""

    def __init__(self, rules: TransactionRules, role: Role, most_claims: int) -> None:
        self.rules = rules
        self.role = role
        self.most_claims = most_claims

    def act(self, catalog: Catalog, party: Party) -> Iterator[Act]:
        match party.doing:
            case "begin":
                for tables in self.role.tables:
                    yield from self.act(catalog, self.begun(tables))
            case "look up":
                yield from self._look_up(catalog, party)
            case "disown":
                yield self._disown(catalog, party)
            case "read":
                yield self._read(catalog, party)
            case "abort":
                yield self._abort(catalog, party)
            case _:
                yield from self._write(catalog, party)

    def begun(self, tables: tuple[int, ...]) -> Party:
        doing: Doing = "look up" if self.role.keyed else "read"
        return Party(doing, tables, may_time_out=self.role.may_time_out)

    def _write(self, catalog: Catalog, party: Party) -> Iterator[Act]:
        match party.doing:
            case "check":
                overtaken = len(catalog.key) > party.claim + 1
                label = "finds that it was overtaken" if overtaken else "finds nothing above"
                yield label, _ended() if overtaken else party._replace(doing="read"), catalog
            case "put":
                yield from self._put(catalog, party)
            case "decide":
                yield from self._decide(catalog, party)
            case "refuse":
                yield self._refuse(catalog, party)

    def _op(self, party: Party) -> str:
        return self.role.op if len(party.tables) > 1 else f"{self.role.op}{party.tables[0]}"

    def _attempt(self, party: Party) -> str:
        return f"{self.role.name}.{party.passes}"

    def _transaction(self, catalog: Catalog, party: Party) -> str:
        if len(party.tables) == 1:
            return ""
        if self.role.keyed and not self.rules.new_id_for_each_takeover:
            return catalog.key[0]
        return self._attempt(party)

    def _look_up(self, catalog: Catalog, party: Party) -> Iterator[Act]:
        if REFUSED in catalog.key:
            yield self._answered("finds the refusal", party, catalog, REFUSED)
        elif len(catalog.key) < self.most_claims:
            claimed = catalog._replace(key=(*catalog.key, self._attempt(party)))
            holding = party._replace(doing="read", claim=len(catalog.key))
            if not catalog.key or not self.rules.new_id_for_each_takeover:
                yield f"claims {holding.claim}", holding, claimed
            else:
                yield f"takes over with {holding.claim}", holding._replace(doing="disown"), claimed

    def _disown(self, catalog: Catalog, party: Party) -> Act:
        """Abort what the holder of the claim before may still be about to commit."""
        holder = catalog.key[party.claim - 1].partition(".")[0]
        number, old = 0, f"{holder}.0"
        while self.rules.every_pass_disowned and outcome(catalog, old) == ABORTED:
            number += 1
            old = f"{holder}.{number}"
        settled = self._settle(catalog, old)
        if outcome(settled, old) == COMMITTED:
            return self._answered(f"finds {old} committed", party, settled, DONE)
        return f"aborts {old} of the claim before", party._replace(doing="read"), settled

    def _settle(self, catalog: Catalog, transaction: str) -> Catalog:
        return decide(catalog, transaction, ABORTED, overwrite=not self.rules.outcome_put_if_absent)

    def _read(self, catalog: Catalog, party: Party) -> Act:
        table = party.tables[party.step]
        chain = catalog.chains[table]
        head = chain[-1]
        verdict = outcome(catalog, head.transaction)
        at_head = party._replace(number=len(chain))
        label = f"reads table {table} to {len(chain) - 1}"
        if head.transaction and not verdict:
            if head.transaction == self._transaction(catalog, party):
                return self._placed(f"{label}, which is its own", at_head, catalog)
            if self.rules.undecided_head_respected:
                met = party._replace(doing="abort", rival=head.transaction)
                return f"{label}, undecided", met, catalog
        base = resolve(head, verdict)
        return self._validate(label, catalog, at_head._replace(base=base), head)

    def _validate(self, label: str, catalog: Catalog, party: Party, head: Pointer) -> Act:
        base = party.base
        if self.role.refused_after and self.role.refused_after in base:
            return f"{label}: invalid", party._replace(doing="refuse"), catalog
        if not self.rules.previous_is_effective:
            base = head.ops
        return label, party._replace(doing="put", base=base), catalog

    def _abort(self, catalog: Catalog, party: Party) -> Act:
        reading = party._replace(doing="read", rival="")
        return f"aborts {party.rival}", reading, self._settle(catalog, party.rival)

    def _put(self, catalog: Catalog, party: Party) -> Iterator[Act]:
        table, number = party.tables[party.step], party.number
        chain = catalog.chains[table]
        pointer = self._pointer(catalog, party)
        if number == len(chain):
            created = append(catalog, table, number, pointer)
            yield self._placed(f"creates {number} of table {table}", party, created)
            if party.may_time_out:
                waiting = catalog._replace(
                    in_flight=catalog.in_flight | {PointerInFlight(table, number, pointer)}
                )
                tired = party._replace(may_time_out=False)
                yield f"times out creating {number} of table {table}", tired, waiting
        elif chain[number].by == pointer.by:
            yield self._placed(f"finds {number} of table {table} its own", party, catalog)
        else:
            rereading = party._replace(doing="read", number=0, base=())
            yield f"finds {number} of table {table} another's", rereading, catalog

    def _pointer(self, catalog: Catalog, party: Party) -> Pointer:
        ops: Ops = tuple(sorted((*party.base, self._op(party))))
        transaction = self._transaction(catalog, party)
        previous = party.base if transaction else ()
        return Pointer(self._attempt(party), ops, transaction, previous)

    def _placed(self, label: str, party: Party, catalog: Catalog) -> Act:
        placed = party._replace(doing="read", step=party.step + 1, number=0, base=())
        if not self.rules.all_tables_before_outcome and len(party.tables) > 1:
            return label, placed._replace(doing="decide"), catalog
        if placed.step < len(party.tables):
            return label, placed, catalog
        if len(party.tables) == 1:
            return self._answered(label, party, catalog, DONE)
        return label, placed._replace(doing="decide"), catalog

    def _decide(self, catalog: Catalog, party: Party) -> Iterator[Act]:
        transaction = self._transaction(catalog, party)
        overwrite = not self.rules.outcome_put_if_absent
        decided = decide(catalog, transaction, COMMITTED, overwrite=overwrite)
        if outcome(decided, transaction) == COMMITTED:
            yield self._committed(f"commits {transaction}", party, decided)
        else:
            yield self._restart(f"finds {transaction} aborted", catalog, party)
        if party.may_time_out and not outcome(catalog, transaction):
            waiting = catalog._replace(late_commits=catalog.late_commits | {transaction})
            tired = party._replace(may_time_out=False)
            yield f"times out committing {transaction}", tired, waiting

    def _committed(self, label: str, party: Party, catalog: Catalog) -> Act:
        if party.step < len(party.tables):  # weakened: the outcome before the last pointer
            return label, party._replace(doing="read"), catalog
        return self._answered(label, party, catalog, DONE)

    def _restart(self, label: str, catalog: Catalog, party: Party) -> Act:
        """With a new transaction; who has no other id can never succeed."""
        if self.role.keyed and not self.rules.new_id_for_each_takeover:
            return f"{label}, has no other", party._replace(doing="hopeless"), catalog
        if party.passes + 1 == self.role.most_passes:
            return f"{label}, gives up", _ended(), catalog
        checks = self.role.keyed and self.rules.claim_checked_each_pass
        doing: Doing = "check" if checks else "read"
        restarted = party._replace(doing=doing, step=0, passes=party.passes + 1)
        return f"{label}, begins again", restarted, catalog

    def _refuse(self, catalog: Catalog, party: Party) -> Act:
        if len(catalog.key) > party.claim + 1:
            return "finds that it was overtaken", _ended(), catalog
        recorded = catalog._replace(key=(*catalog.key, REFUSED))
        return self._answered("records the refusal", party, recorded, REFUSED)

    def _answered(self, label: str, party: Party, catalog: Catalog, status: str) -> Act:
        return f"{label}, answers {status}", _ended(), answer(catalog, self._op(party), status)


def _ended() -> Party:
    return Party("gone", may_time_out=False)


def read(rules: TransactionRules, catalog: Catalog) -> Iterator[tuple[str, Reader]]:
    """One look at a table, in two steps where a transaction must be looked up."""
    reader = catalog.reader
    if reader.pointer is None:
        promised = frozenset(op for op, status in catalog.answers if status == DONE)
        for table, chain in enumerate(catalog.chains):
            looking = reader._replace(table=table, shown_ops=reader.shown_ops | promised)
            yield f"reader reads table {table}", _met(looking, chain[-1])
        return
    verdict = outcome(catalog, reader.pointer.transaction)
    label = f"reader finds {reader.pointer.transaction} {verdict or 'undecided'}"
    yield label, _saw(reader, resolve(reader.pointer, verdict))
    if not rules.reader_never_falls_back:
        yield "reader cannot read the outcome", _saw(reader, reader.pointer.previous)


def _met(reader: Reader, pointer: Pointer) -> Reader:
    if pointer.transaction:
        return reader._replace(pointer=pointer)
    return _saw(reader, pointer.ops)


def _saw(reader: Reader, ops: Ops) -> Reader:
    lost = any(touches(op, reader.table) and op not in ops for op in reader.shown_ops)
    return Reader(shown_ops=reader.shown_ops | set(ops), misled=lost)
