"""One append, step by step: find the head, create the number above it, settle what happened."""

from collections.abc import Iterator

from tests.models.chain_store import (
    ABSENT,
    HALF_TICKS,
    NOWHERE,
    Chain,
    Doing,
    Writer,
    create,
    head,
    owner,
)
from tests.models.rules import ChainRules

Act = tuple[str, Writer, Chain]


def act(rules: ChainRules, chain: Chain, writer: Writer) -> Iterator[Act]:
    match writer.doing:
        case "rest":
            yield from _begin(rules, chain, writer)
        case "start":
            yield _start(rules, chain, writer)
        case "gallop":
            yield _gallop(rules, chain, writer)
        case "climb":
            yield _climb(rules, chain, writer)
        case "floor":
            yield _floor(rules, chain, writer)
        case "put":
            yield from _put(rules, chain, writer)
        case "look":
            yield from _look(rules, chain, writer)
        case "concede":
            yield _concede(chain, writer)
        case "verify":
            yield _verify(rules, chain, writer)


def turn(writer: Writer, remembered: int) -> Writer:
    """To the next append, with the head that is remembered."""
    if writer.op == writer.last_op:
        return Writer("done", writer.op, writer.last_op)
    age = writer.age if remembered != NOWHERE else 0
    return Writer(
        "rest", writer.op + 1, writer.last_op, remembered, age=age, may_crash=writer.may_crash
    )


def _begin(rules: ChainRules, chain: Chain, writer: Writer) -> Iterator[Act]:
    if writer.low != NOWHERE and _young(rules, writer):
        yield f"trusts head {writer.low}", writer._replace(doing="put"), chain
        return
    # A hint may be lost or as old as can be: any number up to the head, or none.
    for hint in range(NOWHERE, head(chain) + 1):
        start = max(hint, chain.floor)
        yield f"reads hint {hint} and floor {chain.floor}", _search(writer, start), chain


def _search(writer: Writer, start: int) -> Writer:
    return writer._replace(doing="start", low=start, high=NOWHERE, gap=1, age=0, genuine=True)


def _start(rules: ChainRules, chain: Chain, writer: Writer) -> Act:
    next_writer = writer._replace(doing="gallop")
    if not chain.store[writer.low]:
        next_writer = _missed(rules, chain, writer._replace(low=writer.low - 1), writer.low)
    return f"probes {writer.low}", next_writer, chain


def _gallop(rules: ChainRules, chain: Chain, writer: Writer) -> Act:
    bisecting = writer.high != NOWHERE
    probe = (writer.low + writer.high) // 2 if bisecting else writer.low + writer.gap
    if probe < len(chain.store) and chain.store[probe]:
        next_writer = writer._replace(low=probe, gap=1 if bisecting else 2 * writer.gap)
        if next_writer.high == next_writer.low + 1:
            next_writer = _after_miss(rules, next_writer)
    else:
        low = writer.low if rules.predecessor_read else probe - 1
        next_writer = _missed(rules, chain, writer._replace(low=low, gap=1), probe)
    return f"probes {probe}", next_writer, chain


def _climb(rules: ChainRules, chain: Chain, writer: Writer) -> Act:
    """One by one from a remembered head: all above it is young if it is, so no floor is read."""
    probe = writer.low + 1
    if chain.store[probe]:
        next_writer = writer._replace(low=probe)
    elif _young(rules, writer):
        next_writer = _accept(writer._replace(age=0, genuine=head(chain) < probe))
    else:
        next_writer = _missed(rules, chain, writer, probe)
    return f"probes {probe}", next_writer, chain


def _missed(rules: ChainRules, chain: Chain, writer: Writer, probe: int) -> Writer:
    missed = writer._replace(high=probe, age=0, genuine=head(chain) < probe)
    return _after_miss(rules, missed) if missed.low + 1 == probe else missed


def _after_miss(rules: ChainRules, writer: Writer) -> Writer:
    return writer._replace(doing="floor") if rules.floor_after_miss else _accept(writer)


def _floor(rules: ChainRules, chain: Chain, writer: Writer) -> Act:
    collected = chain.floor > max(writer.low, 0)
    next_writer = _search(writer, chain.floor) if collected else _accept(writer)
    if not rules.head_dated_by_its_miss:
        next_writer = next_writer._replace(age=0)
    return f"reads floor {chain.floor}", next_writer, chain


def _accept(writer: Writer) -> Writer:
    doing: Doing = "put" if writer.genuine else "misled"
    return writer._replace(doing=doing, high=NOWHERE, gap=1, genuine=True)


def _put(rules: ChainRules, chain: Chain, writer: Writer) -> Iterator[Act]:
    number, op = writer.low + 1, writer.op
    if not chain.store[number]:
        label, created = f"creates {number} with op {op}", create(chain, number, op)
        yield _created(rules, label, created, writer, trusted=_young(rules, writer))
    elif rules.own_write_look:
        yield f"learns that {number} exists", writer._replace(doing="look"), chain
    else:
        yield f"takes {number} for another's", writer._replace(doing="climb", low=number), chain
    # One late create for each writer is enough: a repetition has the same bytes.
    if all(
        create_in_flight == (number, op)
        for create_in_flight in chain.in_flight
        if owner(create_in_flight[1]) == owner(op)
    ):
        waiting = chain._replace(in_flight=chain.in_flight | {(number, op)})
        then: Doing = "look" if rules.own_write_look else "put"
        yield f"times out creating {number} with op {op}", writer._replace(doing=then), waiting


def _look(rules: ChainRules, chain: Chain, writer: Writer) -> Iterator[Act]:
    number = writer.low + 1
    stored_op = chain.store[number]
    mine = stored_op == writer.op if rules.create_id else owner(stored_op) == owner(writer.op)
    if stored_op == ABSENT:
        yield f"sees no {number}, repeats", writer._replace(doing="put"), chain
        yield f"sees no {number}, answers Unknown", turn(writer, writer.low), chain
    elif mine:
        trusted = _young(rules, writer) or not rules.old_find_distrusted
        yield _created(rules, f"finds {number} its own", chain, writer, trusted=trusted)
    elif _young(rules, writer) or not rules.old_loss_distrusted:
        yield f"finds {number} another's", writer._replace(doing="climb", low=number), chain
    else:
        yield f"finds {number} another's", writer._replace(doing="concede"), chain


def _concede(chain: Chain, writer: Writer) -> Act:
    """Its own entry may have been created and collected before this one was created."""
    if writer.low + 1 <= chain.floor:
        return f"reads floor {chain.floor}, answers Unknown", turn(writer, NOWHERE), chain
    climbing = writer._replace(doing="climb", low=writer.low + 1)
    return f"reads floor {chain.floor}, goes on", climbing, chain


def _created(rules: ChainRules, label: str, chain: Chain, writer: Writer, *, trusted: bool) -> Act:
    if trusted:
        return f"{label}, acknowledges", *_acknowledge(rules, chain, writer)
    return label, writer._replace(doing="verify"), chain


def _verify(rules: ChainRules, chain: Chain, writer: Writer) -> Act:
    if writer.low + 1 <= chain.floor:
        return f"reads floor {chain.floor}, answers Unknown", turn(writer, NOWHERE), chain
    return f"reads floor {chain.floor}, acknowledges", *_acknowledge(rules, chain, writer)


def _acknowledge(rules: ChainRules, chain: Chain, writer: Writer) -> tuple[Writer, Chain]:
    """Its own number is the head it remembers, as of a moment when nothing was above it."""
    rested = turn(writer, writer.low + 1)
    if not rules.own_head_dated_by_its_send:
        rested = rested._replace(age=0)
    return rested, chain._replace(acked=chain.acked | {writer.op})


def _young(rules: ChainRules, writer: Writer) -> bool:
    return writer.age <= HALF_TICKS or not rules.old_head_distrusted
