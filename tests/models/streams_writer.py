"""A writer of events: one segment after the other, each settled before the next."""

from collections.abc import Iterator

from tests.models.rules import StreamRules
from tests.models.streams_store import ABSENT, SEAL, Ledger, Writer, body, create

Act = tuple[str, Writer, Ledger]


def act(rules: StreamRules, events: int, ledger: Ledger) -> Iterator[Act]:
    writer = ledger.writer
    match writer.doing:
        case "put":
            yield from _put(rules, events, ledger, writer)
            yield "crashes", _leave(events, writer), ledger
        case "look":
            yield from _look(rules, events, ledger, writer)
        case "open":
            if ledger.opened < len(ledger.segments):
                opened = ledger._replace(opened=ledger.opened + 1)
                next_writer = Writer("put", writer.event, stream=ledger.opened)
                yield f"opens stream {ledger.opened}", next_writer, opened
        case "seal":
            sealed = create(ledger, writer.stream, writer.number, SEAL)
            yield f"seals stream {writer.stream}", Writer("done"), sealed


def _put(rules: StreamRules, events: int, ledger: Ledger, writer: Writer) -> Iterator[Act]:
    event, stream, number = writer.event, writer.stream, writer.number
    target = f"{body(event)} at {stream}/{number}"
    if not rules.create_before_ack and event not in ledger.acked:
        yield f"acknowledges {body(event)}", writer, ledger._replace(acked=ledger.acked | {event})
        return
    if ledger.segments[stream][number]:
        yield f"learns that {stream}/{number} exists", writer._replace(doing="look"), ledger
    else:
        created = create(ledger, stream, number, body(event))
        yield _acknowledge(f"creates {target}", events, created, writer)
    waiting = ledger._replace(in_flight=ledger.in_flight | {(stream, number, body(event))})
    yield f"times out creating {target}", writer._replace(doing="look"), waiting
    if not rules.predecessor_known and event + 1 < events:
        yield f"does not wait for {target}", _next(events, writer), waiting


def _look(rules: StreamRules, events: int, ledger: Ledger, writer: Writer) -> Iterator[Act]:
    target = f"{writer.stream}/{writer.number}"
    stored_body = ledger.segments[writer.stream][writer.number]
    if stored_body == body(writer.event):
        yield _acknowledge(f"finds {target} its own", events, ledger, writer)
    elif stored_body == SEAL and writer.old and rules.old_seal_distrusted:
        yield f"finds {target} sealed too late, answers Unknown", _leave(events, writer), ledger
    elif stored_body == SEAL:
        yield f"finds {target} sealed", Writer("open", writer.event), ledger
    elif stored_body == ABSENT:
        yield f"sees no {target}, repeats", writer._replace(doing="put"), ledger
        yield f"sees no {target}, crashes or answers Unknown", _leave(events, writer), ledger
        if not rules.unknown_leaves_stream and writer.event + 1 < events:
            reusing = Writer("put", writer.event + 1, writer.stream, writer.number)
            yield f"sees no {target}, answers Unknown and uses the number again", reusing, ledger
    else:
        past = writer._replace(doing="put", number=writer.number + 1)
        yield f"finds an older event at {target}", past, ledger


def _acknowledge(label: str, events: int, ledger: Ledger, writer: Writer) -> Act:
    acked = ledger._replace(acked=ledger.acked | {writer.event})
    return f"{label}, acknowledges", _next(events, writer), acked


def _next(events: int, writer: Writer) -> Writer:
    following = Writer("put", writer.event + 1, writer.stream, writer.number + 1)
    return following._replace(doing="seal") if following.event == events else following


def _leave(events: int, writer: Writer) -> Writer:
    """Its last create may still arrive: no writer reuses that number, the stream is left to end."""
    if writer.event + 1 == events:
        return Writer("done")
    return Writer("open", writer.event + 1)
