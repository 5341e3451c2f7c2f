"""One request with a batch, and what its answer means."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import httpx2
import msgspec

from arco.client.event import Line
from arco.core import json
from arco.core.errors import Invalid

PATH = "/api/v1/events"
Token = str | Callable[[], str]

_LONGEST_DETAIL = 300


@dataclass(frozen=True)
class Settled:
    """Every line has its outcome; those refused by their place in the batch."""

    refused: dict[int, str]


@dataclass(frozen=True)
class TooMuch:
    """The server does not read this batch; perhaps a smaller one."""

    reason: str


@dataclass(frozen=True)
class Later:
    """No answer, or one that may be another later. It is not known whether the events are stored."""

    problem: str
    after_s: float = 0.0


Answer = Settled | TooMuch | Later


class _Refusal(msgspec.Struct):
    line: int
    reason: str


class _Appended(msgspec.Struct):
    accepted: int
    duplicates: list[msgspec.Raw]
    refused: list[_Refusal]


class _Problem(msgspec.Struct):
    code: str = ""
    detail: str = ""
    refused: list[_Refusal] = msgspec.field(default_factory=list)


class Post:
    """The way to one server."""

    def __init__(self, http: httpx2.Client, token: Token | None) -> None:
        self._http = http
        self._token = token

    def send(self, lines: Sequence[Line]) -> Answer:
        """Send a batch once."""
        try:
            answer = self._http.post(
                PATH, content=b"\n".join(line.body for line in lines), headers=self._headers()
            )
            return _meaning(answer, len(lines))
        except Invalid as problem:
            return Later(f"an answer that is not one of Arco's: {problem}"[:_LONGEST_DETAIL])
        except Exception as problem:
            # Of the network, or of the function that gives the token: none of it may end the sending.
            return Later(f"{type(problem).__name__}: {problem}"[:_LONGEST_DETAIL])

    def close(self) -> None:
        """Let the connections go."""
        self._http.close()

    def _headers(self) -> dict[str, str]:
        headers = {"Content-Type": "application/x-ndjson"}
        if self._token is not None:
            token = self._token if isinstance(self._token, str) else self._token()
            headers["Authorization"] = f"Bearer {token}"
        return headers


def _meaning(answer: httpx2.Response, count: int) -> Answer:
    if answer.status_code == 200:
        told = json.decode(answer.content, _Appended)
        return _settled(told.refused, count, told.accepted + len(told.duplicates))
    try:
        problem = json.decode(answer.content, _Problem)
    except Invalid:
        problem = _Problem()  # somebody between us and the server has answered
    if answer.status_code == 422 and problem.code == "events_refused":
        return _settled(problem.refused, count, 0)
    said = f"{answer.status_code} {problem.detail or answer.reason_phrase}"[:_LONGEST_DETAIL]
    is_ours = bool(problem.code)
    if answer.status_code == 413 or (answer.status_code == 400 and is_ours):
        return TooMuch(said)  # of one event it is the event's fault
    return Later(said, _after_s(answer))


def _settled(refused: list[_Refusal], count: int, stored: int) -> Settled:
    places = {each.line - 1: each.reason for each in refused}
    if any(not 0 <= place < count for place in places):
        raise Invalid("it refuses a line that was not sent")
    if stored + len(places) != count:
        raise Invalid(f"it tells of {stored + len(places)} events, and {count} were sent")
    return Settled(places)


def _after_s(answer: httpx2.Response) -> float:
    given = answer.headers.get("retry-after", "")
    return float(given) if given.isascii() and given.isdigit() and len(given) < 6 else 0.0
