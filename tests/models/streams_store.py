"""Streams of segments, the manifest that says what was folded, and who works on them."""

from collections.abc import Iterator
from typing import Literal, NamedTuple

ABSENT, SEAL = "", "seal"
OPEN, CLOSED = -1, 99  # marks, beside the number of the last segment folded

Doing = Literal["put", "look", "open", "seal", "done"]


class Writer(NamedTuple):
    doing: Doing = "put"
    event: int = 0
    stream: int = 0
    number: int = 0
    old: bool = False  # its create is not settled, and the retention has passed


class Manifest(NamedTuple):
    marks: tuple[int, ...]  # the watermark: how far each stream was folded
    rows: tuple[int, ...]  # how often each event was folded


class Ledger(NamedTuple):
    segments: tuple[tuple[str, ...], ...]
    opened: int  # streams below this have their slot
    writer: Writer
    in_flight: frozenset[tuple[int, int, str]]  # (stream, number, body): timed out, still under way
    manifest: Manifest
    view: Manifest | None  # what the compactor has folded and not yet published
    aim: tuple[int, int] | None  # where the janitor will try to put a seal
    acked: frozenset[int]


def body(event: int) -> str:
    return f"e{event}"


def create(ledger: Ledger, stream: int, number: int, content: str) -> Ledger:
    if ledger.segments[stream][number]:
        return ledger
    return _write(ledger, stream, number, content)


def collect(ledger: Ledger, stream: int, number: int) -> Ledger:
    """What goes was folded a retention ago, so a create of it that is not settled is older."""
    writer, collected = ledger.writer, _write(ledger, stream, number, ABSENT)
    if writer.doing in ("put", "look") and (writer.stream, writer.number) == (stream, number):
        return collected._replace(writer=writer._replace(old=True))
    return collected


def unfolded(ledger: Ledger) -> Iterator[str]:
    """What the compactor would still find if all others stood still."""
    for segments, mark in zip(ledger.segments, ledger.manifest.marks, strict=True):
        for content in segments[mark + 1 :]:
            if content in (ABSENT, SEAL):
                break
            yield content


def put(numbers: tuple[int, ...], at: int, value: int) -> tuple[int, ...]:
    return (*numbers[:at], value, *numbers[at + 1 :])


def _write(ledger: Ledger, stream: int, number: int, content: str) -> Ledger:
    streams = list(ledger.segments)
    segments = list(streams[stream])
    segments[number] = content
    streams[stream] = tuple(segments)
    return ledger._replace(segments=tuple(streams))
