"""A running Arco, asked over HTTP.

Reads are simply asked again when the answer is lost. A change carries a key of its own, and is sent again
with the same key, so that it is made once however often it was sent; when no answer comes in the end, it is
`Unknown` unless every attempt was turned away before anything was done.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, quote, urlsplit

import httpx2
import msgspec

from arco.cli.refusal import advise, refusal, stranger, wait_ms
from arco.core import json
from arco.core.errors import (
    ArcoError,
    AttemptFenced,
    Denied,
    Fenced,
    Invalid,
    StoreFull,
    Unavailable,
    Unknown,
    Unsupported,
)
from arco.core.ids import new_ulid

if TYPE_CHECKING:
    from arco.core.runtime import Runtime

API = "/api/v1"
ICEBERG = "/iceberg"
PAGE_SIZE = 1_000  # the most that a server gives at once

_JSON = "application/json"
_CONNECT_S = 5.0
_ANSWER_S = 40.0  # a server gives a request less than this
_ATTEMPTS = 5
_BUDGET_MS = 45_000
_FIRST_PAUSE_MS = 200
_LONGEST_PAUSE_MS = 10_000
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})

Params = Mapping[str, str | None]


class Page(msgspec.Struct, frozen=True):
    """A part of a list, its items as they came."""

    items: list[msgspec.Raw]
    next_page_token: str | None = None


class Remote:
    """One Arco at one URL. `pause` waits for so many milliseconds."""

    def __init__(
        self, url: str, runtime: "Runtime", pause: Callable[[float], None], *, token: str | None
    ) -> None:
        host = check_url(url).hostname
        self.url = url.rstrip("/")
        self._runtime = runtime
        self._pause = pause
        self._client = httpx2.Client(
            headers={} if token is None else {"Authorization": f"Bearer {token}"},
            timeout=httpx2.Timeout(_ANSWER_S, connect=_CONNECT_S),
            follow_redirects=False,  # the token is for this server alone
            trust_env=not is_here(host),  # no proxy leads to this machine
        )

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def get(self, path: str, params: Params | None = None, *, below: str = API) -> bytes:
        """The document at `path`."""
        return self._document(self._send("GET", f"{below}{path}", params or {}, None, None))

    def post(self, path: str, body: object, *, accept: str) -> bytes:
        """The answer to a question that is too long for a URL; it changes nothing."""
        return self._send(
            "POST", f"{API}{path}", {}, json.encode(body), None, accept=accept
        ).content

    def pages(self, path: str, params: Params | None = None) -> Iterator[list[msgspec.Raw]]:
        """The items of a list, a page at a time."""
        token: str | None = None
        while True:
            asked = {**(params or {}), "page_size": str(PAGE_SIZE), "page_token": token}
            page = json.decode(self.get(path, asked), Page)
            yield page.items
            token = page.next_page_token
            if token is None:
                return

    def change(
        self, method: str, path: str, body: object = None, params: Params | None = None
    ) -> bytes:
        """What a change is answered with; nothing where there is nothing to tell."""
        content = None if body is None else json.encode(body)
        key = new_ulid(self._runtime)
        answer = self._send(method, f"{API}{path}", params or {}, content, key)
        if answer.status_code == 204:
            return b""
        try:
            return self._document(answer)
        except Unsupported as problem:
            raise Unknown(f"{problem}; the change may have been made") from problem

    def _send(
        self,
        method: str,
        path: str,
        params: Params,
        content: bytes | None,
        key: str | None,
        *,
        accept: str = _JSON,
    ) -> httpx2.Response:
        """The answer of a success, or the error that is left after the last attempt."""
        request = self._request(method, path, params, content, key)
        request.headers["Accept"] = accept
        started = self._runtime.clock.elapsed_ms()
        doubtful = False  # whether an attempt may have changed something without our knowing
        for attempt in range(1, _ATTEMPTS + 1):
            outcome = self._attempt(request)
            if isinstance(outcome, httpx2.Response):
                return outcome
            lost = outcome
            if lost.is_final(first=attempt == 1, doubtful=doubtful):
                raise lost.error
            doubtful = doubtful or (lost.in_doubt and key is not None)
            pause_ms = self._pause_ms(attempt, lost.wait_ms)
            spent_ms = self._runtime.clock.elapsed_ms() - started
            if attempt == _ATTEMPTS or spent_ms + pause_ms > _BUDGET_MS:
                break
            self._pause(pause_ms)
        if doubtful:
            raise Unknown(f"{self.url} gave no clear answer, so the change may have been made")
        # A read changes nothing, so nothing about it can be in doubt.
        raise Unavailable(str(lost.error)) if lost.in_doubt else lost.error

    def _attempt(self, request: httpx2.Request) -> "httpx2.Response | _Lost":
        try:
            answer = self._client.send(request)
        except (httpx2.ConnectError, httpx2.ConnectTimeout):
            step = "Start one with `arco up`, or name another with --url."
            return _Lost(advise(Unavailable(f"no Arco is running at {self.url}"), step), sent=False)
        except httpx2.HTTPError as problem:
            error = Unavailable(f"{self.url} did not answer ({type(problem).__name__})")
            return _Lost(error, in_doubt=True)
        if answer.is_success:
            return answer
        refused = refusal(answer, self.url)
        return _Lost(refused, in_doubt=isinstance(refused, Unknown), wait_ms=wait_ms(answer))

    def _request(
        self, method: str, path: str, params: Params, content: bytes | None, key: str | None
    ) -> httpx2.Request:
        given = {name: value for name, value in params.items() if value is not None}
        headers: dict[str, str] = {}
        if content is not None:
            headers["Content-Type"] = _JSON
        if key is not None:
            headers["Idempotency-Key"] = key
        return self._client.build_request(
            method, f"{self.url}{path}", params=given, content=content, headers=headers
        )

    def _pause_ms(self, attempt: int, asked_ms: int | None) -> float:
        ms = _FIRST_PAUSE_MS * 2 ** (attempt - 1) if asked_ms is None else asked_ms
        return min(ms, _LONGEST_PAUSE_MS) * (1 + self._runtime.rng.random() / 4)

    def _document(self, answer: httpx2.Response) -> bytes:
        if not answer.headers.get("content-type", "").startswith(_JSON):
            raise stranger(answer.status_code, self.url)
        return answer.content


@dataclass(frozen=True)
class _Lost:
    """An attempt without success. `sent`: it reached a server. `in_doubt`: it may have been carried out."""

    error: ArcoError
    sent: bool = True
    in_doubt: bool = False
    wait_ms: int | None = None

    def is_final(self, *, first: bool, doubtful: bool) -> bool:
        """Whether another attempt would tell no more."""
        if not self.sent:
            return first  # where somebody was a moment ago, somebody may be back soon
        if doubtful and isinstance(self.error, Denied | Unsupported):
            return False  # it says nothing about the attempt before it
        if isinstance(self.error, AttemptFenced):
            return True  # and so it stays, whatever became of the attempt before it
        if isinstance(self.error, StoreFull):
            return not doubtful  # no retry makes room
        return not isinstance(self.error, Unavailable | Fenced | Unknown)


def path(*parts: str) -> str:
    """The path of something below the API, each part escaped."""
    return "".join(f"/{quote(part, safe='')}" for part in parts)


def is_here(host: str | None) -> bool:
    """Whether a host is this very machine."""
    return host in _LOOPBACK


def check_url(url: str) -> SplitResult:
    """The parts of the URL of a server, or `Invalid` with what is wrong about it."""
    try:
        parsed = urlsplit(url)
        httpx2.URL(url)
        parsed.port  # noqa: B018 - it is looked at only when it is asked for
    except (ValueError, httpx2.InvalidURL) as problem:
        raise Invalid(f"--url is not a URL: {problem}") from problem
    if parsed.scheme not in {"http", "https"} or not parsed.hostname:
        raise Invalid("--url takes the URL of a server, such as http://127.0.0.1:8181")
    if parsed.username is not None or parsed.query or parsed.fragment:
        raise Invalid("--url takes a server alone; a token goes into the variable ARCO_TOKEN")
    return parsed
