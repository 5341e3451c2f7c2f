"""HTTP to one Arco: the only transport of the client, with one retry policy for all calls.

A read is sent again when its answer is lost. A change carries an idempotency key and is sent again with it,
so it takes effect once however often it was sent; when no answer comes in the end it is `Unknown`, unless
every attempt was rejected before anything happened. A response that is not a success becomes the error of
`arco.core.errors` that the server raised.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from threading import Event
from typing import TypeVar
from urllib.parse import SplitResult, quote, urlsplit

import httpx2
import msgspec

from arco.core import json
from arco.core.backoff import ExponentialBackoff
from arco.core.errors import (
    ArcoError,
    AttemptFenced,
    Denied,
    Fenced,
    Invalid,
    NotEmpty,
    StoreFull,
    StoreReadOnly,
    Unauthenticated,
    Unavailable,
    Unknown,
    Unsupported,
    errors_by_code,
)
from arco.core.ids import new_ulid
from arco.core.runtime import Rng, Runtime, system_runtime

E = TypeVar("E", bound=ArcoError)

API = "/api/v1"
ICEBERG = "/iceberg"
PAGE_SIZE = 1_000  # the server's limit
JSON_TYPE = "application/json"
PROBLEM_TYPE = "application/problem+json"
CONNECT_S = 5.0
RESPONSE_S = 40.0  # the server gives a request less than this

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})

Params = Mapping[str, str | None]
Token = str | Callable[[], str]


@dataclass(frozen=True)
class HttpRetryPolicy:
    """How often a call is tried, and how long to pause: doubling, with jitter, or as the server asks."""

    attempts: int = 5
    first_pause_ms: float = 200
    longest_pause_ms: float = 10_000
    budget_ms: float = 45_000  # for all attempts and pauses of a call

    def pause_ms(self, attempt: int, asked_ms: int | None, rng: Rng) -> float:
        """The pause after a failed attempt, counted from 1; `asked_ms` is what the server asked for."""
        backoff = ExponentialBackoff(self.first_pause_ms, self.longest_pause_ms)
        if asked_ms is None:
            return backoff.pause_ms(attempt, rng)
        return backoff.spread_ms(asked_ms, rng)


class Transport:
    """Requests to one Arco at one URL. Threads may share it. `pause` waits for some milliseconds."""

    def __init__(
        self,
        url: str,
        *,
        token: Token | None = None,
        runtime: Runtime | None = None,
        pause: Callable[[float], None] | None = None,
        retry: HttpRetryPolicy | None = None,
        http: httpx2.BaseTransport | None = None,
    ) -> None:
        check_url(url)
        self.url = url.rstrip("/")
        self._token = token
        self._runtime = system_runtime() if runtime is None else runtime
        self.pause = _wait if pause is None else pause
        self._retry = HttpRetryPolicy() if retry is None else retry
        self._http = http_client(url, transport=http)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def get(self, path: str, params: Params | None = None, *, below: str = API) -> bytes:
        """The JSON document at `path`."""
        return _document(self._send("GET", f"{below}{path}", params or {}, None, None), self.url)

    def get_text(self, path: str) -> str:
        """The text at `path` of the server, which is not below the API."""
        return self._send("GET", path, {}, None, None, accept="*/*").text

    def post(self, path: str, body: object, *, accept: str = JSON_TYPE) -> bytes:
        """The response to a question that is too long for a URL; it changes nothing."""
        content = json.encode(body)
        response = self._send("POST", f"{API}{path}", {}, content, None, accept=accept)
        return _document(response, self.url) if accept == JSON_TYPE else response.content

    def pages(self, path: str, params: Params | None = None) -> Iterator[list[msgspec.Raw]]:
        """The items of a list, one page at a time."""
        token: str | None = None
        while True:
            query = {"page_size": str(PAGE_SIZE), **(params or {}), "page_token": token}
            page = json.decode(self.get(path, query), _Page)
            yield page.items
            token = page.next_page_token
            if token is None:
                return

    def change(
        self,
        method: str,
        path: str,
        body: object = None,
        params: Params | None = None,
        *,
        if_commit: int | None = None,
    ) -> bytes:
        """Send a change; its document, or nothing where the server answers with none."""
        content = None if body is None else json.encode(body)
        key = new_ulid(self._runtime)
        response = self._send(
            method, f"{API}{path}", params or {}, content, key, if_commit=if_commit
        )
        if response.status_code == 204:
            return b""
        try:
            return _document(response, self.url)
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
        accept: str = JSON_TYPE,
        if_commit: int | None = None,
    ) -> httpx2.Response:
        """The response of a success, or the error that is left after the last attempt."""
        headers = {"Accept": accept, **bearer(self._token)}
        if content is not None:
            headers["Content-Type"] = JSON_TYPE
        if key is not None:
            headers["Idempotency-Key"] = key
        if if_commit is not None:
            headers["If-Match"] = f'"{if_commit}"'
        query = {name: value for name, value in params.items() if value is not None}
        request = self._http.build_request(
            method, f"{self.url}{path}", params=query, content=content, headers=headers
        )
        clock, retry = self._runtime.clock, self._retry
        started_ms = clock.elapsed_ms()
        doubtful = False  # whether an attempt may have made the change without an answer
        attempt = 0
        while True:
            attempt += 1
            outcome = self._attempt(request)
            if isinstance(outcome, httpx2.Response):
                return outcome
            if outcome.is_final(first=attempt == 1, doubtful=doubtful):
                raise outcome.error
            doubtful = doubtful or (outcome.in_doubt and key is not None)
            pause_ms = retry.pause_ms(attempt, outcome.wait_ms, self._runtime.rng)
            spent_ms = clock.elapsed_ms() - started_ms
            if attempt >= retry.attempts or spent_ms + pause_ms > retry.budget_ms:
                break
            self.pause(pause_ms)
        if doubtful:
            raise Unknown(f"{self.url} gave no clear answer, so the change may have been made")
        # A read changes nothing, so its outcome cannot be unknown.
        raise Unavailable(str(outcome.error)) if outcome.in_doubt else outcome.error

    def _attempt(self, request: httpx2.Request) -> "httpx2.Response | _Failure":
        try:
            response = self._http.send(request)
        except (httpx2.ConnectError, httpx2.ConnectTimeout):
            return _Failure(not_running(self.url), sent=False)
        except httpx2.HTTPError as problem:
            error = Unavailable(f"{self.url} did not answer ({type(problem).__name__})")
            return _Failure(error, in_doubt=True)
        if response.is_success:
            return response
        error_of_response = response_error(response, self.url)
        in_doubt = isinstance(error_of_response, Unknown)
        return _Failure(error_of_response, in_doubt=in_doubt, wait_ms=retry_after_ms(response))


@dataclass(frozen=True)
class _Failure:
    """An attempt without success. `sent`: it reached a server. `in_doubt`: it may have taken effect."""

    error: ArcoError
    sent: bool = True
    in_doubt: bool = False
    wait_ms: int | None = None

    def is_final(self, *, first: bool, doubtful: bool) -> bool:
        """Whether another attempt would not change the outcome."""
        if not self.sent:
            return first  # a server that answered a moment ago may be back soon
        if doubtful and isinstance(self.error, Denied | Unsupported):
            return False  # it says nothing about the attempt before it
        if isinstance(self.error, AttemptFenced):
            return True  # and stays so, whatever became of the attempt before it
        if isinstance(self.error, StoreFull):
            return not doubtful  # a retry does not free space
        return not isinstance(self.error, Unavailable | Fenced | Unknown)


class _Page(msgspec.Struct, frozen=True):
    items: list[msgspec.Raw]
    next_page_token: str | None = None


def http_client(
    url: str, *, timeout_s: float = RESPONSE_S, transport: httpx2.BaseTransport | None = None
) -> httpx2.Client:
    """Connections to the server at `url`. Redirects are not followed: the token is for it alone."""
    return httpx2.Client(
        base_url=url,
        timeout=httpx2.Timeout(timeout_s, connect=min(timeout_s, CONNECT_S)),
        follow_redirects=False,
        trust_env=not is_loopback(url),
        transport=transport,
    )


def bearer(token: Token | None) -> dict[str, str]:
    """The header that carries the token, if there is one."""
    if token is None:
        return {}
    return {"Authorization": f"Bearer {token if isinstance(token, str) else token()}"}


def is_loopback(url: str) -> bool:
    """Whether a server is on this machine, where no proxy leads to."""
    return urlsplit(url).hostname in _LOOPBACK


def check_url(url: str) -> SplitResult:
    """The parts of the URL of a server, or `Invalid` with what is wrong about it."""
    try:
        parsed = urlsplit(url)
        httpx2.URL(url)
        parsed.port  # noqa: B018 - it is checked only when it is read
    except (ValueError, httpx2.InvalidURL) as problem:
        raise Invalid(f"the url is not valid: {problem}") from problem
    if parsed.scheme not in {"http", "https"} or not parsed.hostname:
        raise Invalid("the url must name a server, such as http://127.0.0.1:8181")
    if parsed.username is not None or parsed.query or parsed.fragment:
        raise Invalid(
            "the url must name the server alone: pass a token separately, without a query"
        )
    return parsed


def path(*parts: str) -> str:
    """A path below the API, each part escaped."""
    return "".join(f"/{quote(part, safe='')}" for part in parts)


def _document(response: httpx2.Response, url: str) -> bytes:
    if not response.headers.get("content-type", "").startswith(JSON_TYPE):
        raise not_arco(response.status_code, url)
    return response.content


def _wait(ms: float) -> None:
    Event().wait(ms / 1000)


# Errors

# What a person at a prompt can do about an error, where that differs from what the server advises programs.
_CLIENT_STEPS: Mapping[type[ArcoError], str] = {
    NotEmpty: "Drop what it holds first, or add --force to drop it all.",
    Unauthenticated: (
        "Set ARCO_TOKEN, or name a file that holds a token with --token-file; `arco token mint` "
        "makes one."
    ),
    Denied: "Ask for access, or use another token.",
    StoreReadOnly: "Mount the disk of that Arco's store writable, then try again.",
    StoreFull: "Free space on the disk of that Arco's store, then try again.",
    Unavailable: "Try again in a moment.",
}
_BY_STATUS: Mapping[int, type[ArcoError]] = {
    401: Unauthenticated,
    403: Denied,
    408: Unavailable,
    429: Unavailable,
    502: Unknown,
    503: Unavailable,
    504: Unknown,
    507: StoreFull,
}


class _ProblemDocument(msgspec.Struct):
    code: str
    detail: str = ""
    next_step: str = ""


def response_error(response: httpx2.Response, url: str) -> ArcoError:
    """The error behind a response that is not a success."""
    problem = _problem_document(response)
    if problem is None:
        return not_arco(response.status_code, url)
    if problem.code == "no_such_route":
        older = Unsupported(f"the Arco at {url} does not know this request")
        return advise(older, "Its version may be another: compare `arco version` on both sides.")
    kind = _KINDS.get(problem.code) or _by_status(response.status_code)
    steps = (step for each, step in _CLIENT_STEPS.items() if issubclass(kind, each))
    message = problem.detail or f"the server answered with the code {problem.code}"
    # The message of an invalid request says what to change; the command line adds its --help.
    default = "" if kind is Invalid else kind.next_step
    return advise(kind(message), next(steps, problem.next_step or default))


def not_running(url: str) -> Unavailable:
    """The error for a server that cannot be connected to."""
    step = "Start one with `arco up`, or name another with --url."
    return advise(Unavailable(f"no Arco is running at {url}"), step)


def not_arco(status: int, url: str) -> ArcoError:
    """The error for a response without a code of Arco: a proxy or another program may have sent it."""
    kind = _BY_STATUS.get(status) or (Unsupported if status < 500 else Unknown)
    message = f"{url} did not answer like an Arco server (status {status})"
    return advise(kind(message), "" if kind is Unknown else "Check the URL or the proxy.")


def advise(error: E, step: str) -> E:
    """`error` with what to do about it, which ends the line that a person sees."""
    if step:
        error.add_note(step)
    return error


def retry_after_ms(response: httpx2.Response) -> int | None:
    """How long the server asks to wait."""
    text = response.headers.get("retry-after", "")
    return int(text) * 1000 if text.isascii() and text.isdigit() and len(text) < 6 else None


def _problem_document(response: httpx2.Response) -> _ProblemDocument | None:
    if not response.headers.get("content-type", "").startswith(PROBLEM_TYPE):
        return None
    try:
        return json.decode(response.content, _ProblemDocument)
    except Invalid:
        return None


def _by_status(status: int) -> type[ArcoError]:
    return _BY_STATUS.get(status) or (Invalid if status < 500 else Unknown)


_KINDS: Mapping[str, type[ArcoError]] = errors_by_code()
