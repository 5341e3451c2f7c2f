"""Replays of lines in quarantine, through a running Arco."""

from collections.abc import Iterator, Sequence

import msgspec

from arco.cli.remote import Remote
from arco.core import json
from arco.core.errors import AlreadyExists, Invalid, Unavailable

Line = tuple[str, str, int, int]  # domain, stream, segment, line

_QUERY = (
    "SELECT domain, stream, segment, line FROM system.quarantine WHERE replayed_at IS NULL "
    "ORDER BY received_at, domain, stream, segment, line"
)


class _Rows(msgspec.Struct, frozen=True):
    rows: list[Line]


class _Replayed(msgspec.Struct, frozen=True):
    event_type: str


def replay_all(remote: Remote, lines: Sequence[Line] | None) -> None:
    """Replay these lines, or all there are, and say what became of each; `Unavailable` if some stay."""
    stay = 0
    for line in lines if lines is not None else _waiting(remote):
        name = "/".join(map(str, line))
        body = dict(zip(("domain", "stream", "segment", "line"), line, strict=True))
        try:
            done = json.decode(remote.change("POST", "/quarantine/replay", body), _Replayed)
        except (Invalid, AlreadyExists) as problem:
            stay += 1
            print(f"{name} stays: {problem}")
        else:
            print(f"{name}: {done.event_type} was sent anew")
    if stay:
        left = Unavailable(f"{stay} of the lines stay in quarantine")
        left.add_note(
            "Update Arco if they are newer than it; `arco quarantine show` has the events."
        )
        raise left


def _waiting(remote: Remote) -> Iterator[Line]:
    found = json.decode(remote.change("POST", "/query", {"sql": _QUERY}), _Rows)
    if not found.rows:
        print("Nothing is in quarantine that was not replayed.")
    yield from found.rows
