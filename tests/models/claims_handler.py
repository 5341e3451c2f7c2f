"""One handler of the request: claim, read, validate, check, create, record; or refuse."""

from collections.abc import Iterator

from tests.models.claims_store import (
    DONE,
    FOREIGN,
    MINE,
    REFUSED,
    Create,
    Doing,
    Handler,
    Key,
    arrive,
    entry_above,
    may_land,
    outcome,
    outcome_above,
)
from tests.models.rules import ClaimRules

Act = tuple[str, Handler, Key]


def act(
    rules: ClaimRules, most_claims: int, key: Key, handler: Handler, name: str
) -> Iterator[Act]:
    match handler.doing:
        case "look up":
            yield from _look_up(rules, most_claims, key)
        case "claim":
            yield from _claim(rules, key, handler, name)
        case "claimed?":
            yield _claimed(rules, key, handler, name)
        case _:
            yield from _work(rules, key, handler)


def _work(rules: ClaimRules, key: Key, handler: Handler) -> Iterator[Act]:
    """A pass of the one that holds a claim."""
    match handler.doing:
        case "read":
            yield _decide(rules, "reads the target", key, _read(rules, key, handler))
        case "check":
            yield _check(rules, key, handler)
        case "put":
            yield from _put(rules, key, handler)
        case "landed?":
            yield _landed(key, handler)
        case "refuse":
            yield from _refuse(rules, key, handler)
        case "refused?":
            yield from _refused(rules, key, handler)
        case "record":
            done = Create(on_target=False, number=handler.claim + 1, body=DONE)
            recorded = arrive(key, done, rules)
            yield "records the outcome", Handler("gone"), recorded


def _look_up(rules: ClaimRules, most_claims: int, key: Key) -> Iterator[Act]:
    claiming = Handler("claim", claim=len(key.numbers))
    if outcome_body := outcome(key):
        yield _answer("finds the outcome", key, outcome_body)
    elif not key.numbers:
        yield "finds no claim", claiming, key
        yield "finds no claim, reads the target beside it", _read(rules, key, claiming), key
    else:
        if MINE in key.target:
            yield _answer("finds the request in the target", key, DONE)
        if len(key.numbers) == most_claims:
            return
        if rules.taker_claims_first:
            yield "takes over", claiming, key
        else:
            yield "reads the target, takes over", _read(rules, key, claiming), key


def _read(rules: ClaimRules, key: Key, handler: Handler) -> Handler:
    on_target = sum(body == FOREIGN for body in key.target)
    turns = on_target if rules.verdict_from_target else key.turns
    valid = turns % 2 == 0 and MINE not in key.target
    return handler._replace(read_count=len(key.target), valid=valid)


def _claim(rules: ClaimRules, key: Key, handler: Handler, name: str) -> Iterator[Act]:
    claim = Create(on_target=False, number=handler.claim, body=name)
    if len(key.numbers) == handler.claim:
        claimed = arrive(key, claim, rules)
        yield _hold(rules, f"claims {handler.claim}", claimed, handler)
    else:
        yield "learns that the claim exists", handler._replace(doing="claimed?"), key
    yield _time_out("claiming", key, handler, claim, "claimed?")


def _claimed(rules: ClaimRules, key: Key, handler: Handler, name: str) -> Act:
    if len(key.numbers) == handler.claim:
        return "sees no claim, repeats", handler._replace(doing="claim"), key
    if key.numbers[handler.claim] == name:
        return _hold(rules, "finds its own claim", key, handler)
    return "finds another there", Handler("look up"), key


def _hold(rules: ClaimRules, label: str, key: Key, handler: Handler) -> Act:
    if handler.read_count:
        return _decide(rules, label, key, handler)
    return label, handler._replace(doing="read"), key


def _decide(rules: ClaimRules, label: str, key: Key, handler: Handler) -> Act:
    if rules.own_request_sought and MINE in key.target[: handler.read_count]:
        return _answer(f"{label}, finds the request", key, DONE, handler)
    doing: Doing = "check" if handler.valid else "refuse"
    return f"{label}: {'valid' if handler.valid else 'invalid'}", handler._replace(doing=doing), key


def _check(rules: ClaimRules, key: Key, handler: Handler) -> Act:
    if rules.checked_above_claim and entry_above(key, handler.claim):
        return "finds that it was overtaken", Handler("look up"), key
    return "finds nothing above its claim", handler._replace(doing="put"), key


def _put(rules: ClaimRules, key: Key, handler: Handler) -> Iterator[Act]:
    commit = Create(on_target=True, number=handler.read_count, body=MINE)
    if len(key.target) == handler.read_count:
        landed = arrive(key, commit, rules)
        yield _answer(f"creates target {handler.read_count}", landed, DONE, handler)
    else:
        yield (
            f"learns that target {handler.read_count} exists",
            handler._replace(doing="landed?"),
            key,
        )
    yield _time_out(f"creating target {handler.read_count}", key, handler, commit, "landed?")


def _landed(key: Key, handler: Handler) -> Act:
    if len(key.target) == handler.read_count:
        return f"sees no target {handler.read_count}, repeats", handler._replace(doing="put"), key
    if key.target[handler.read_count] == MINE:
        return _answer("finds the request there", key, DONE, handler)
    return "finds a foreign request there", Handler("read", claim=handler.claim), key


def _refuse(rules: ClaimRules, key: Key, handler: Handler) -> Iterator[Act]:
    refusal = Create(on_target=False, number=handler.claim + 1, body=REFUSED)
    if not outcome_above(key, handler.claim, rules):
        refused = arrive(key, refusal, rules)
        yield _answer("records the refusal", refused, REFUSED)
    elif rules.refusal_above_claim:
        yield "learns that an outcome exists", handler._replace(doing="refused?"), key
    else:
        yield _answer("refuses all the same", key, REFUSED)
    yield _time_out("refusing", key, handler, refusal, "refused?")


def _refused(rules: ClaimRules, key: Key, handler: Handler) -> Iterator[Act]:
    outcome_body = outcome_above(key, handler.claim, rules)
    if outcome_body == REFUSED:
        yield _answer("finds the refusal", key, REFUSED)
    elif outcome_body:
        yield "finds that it was overtaken", Handler("look up"), key
    else:
        yield "sees no refusal, repeats", handler._replace(doing="refuse"), key
        if not rules.refusal_settled:
            yield "sees no refusal, tries again", Handler("read", claim=handler.claim), key


def _answer(label: str, key: Key, answer: str, recorder: Handler | None = None) -> Act:
    then = Handler("record", claim=recorder.claim) if recorder else Handler("gone")
    return f"{label}, answers {answer}", then, key._replace(answers=key.answers | {answer})


def _time_out(label: str, key: Key, handler: Handler, create: Create, then: Doing) -> Act:
    waiting = key._replace(in_flight=key.in_flight | {create}) if may_land(key, create) else key
    return f"times out {label}", handler._replace(doing=then), waiting
