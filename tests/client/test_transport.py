import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from arco.api.http.problem import CONTENT_TYPE, encode_problem, headers_of, problem_of
from arco.cli.flags import Server
from arco.client.transport import Transport
from arco.core import errors
from arco.core.errors import (
    AlreadyExists,
    ArcoError,
    Corrupt,
    Denied,
    Invalid,
    NotFound,
    Unauthenticated,
    Unavailable,
    Unknown,
    Unsupported,
)
from tests.cli.command import arco, is_one_sentence
from tests.cli.serving import serving
from tests.client.scripted_server import CUT, Reply, Script, losing_answers, scripted

OK = Reply(200, b'{"id": "1"}')
DOCUMENT = b'{"id": "1"}'
KINDS = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, ArcoError) and kind is not ArcoError
]


def refusal(error: ArcoError) -> Reply:
    """The reply that a real Arco gives for an error."""
    problem = problem_of(error)
    return Reply(problem.status, encode_problem(problem), CONTENT_TYPE, headers_of(error))


@contextmanager
def connected(script: Script, token: str | None = None) -> Iterator[tuple[Transport, list[float]]]:
    """A transport, and the pauses that it would have made."""
    pauses: list[float] = []
    client = Transport(script.url, pause=pauses.append, token=token)
    yield client, pauses
    client.close()


@pytest.mark.parametrize(
    "lost", [CUT, refusal(Unavailable("x")), refusal(Unknown("x")), Reply(502)]
)
def test_a_read_that_was_lost_is_asked_again(lost: Reply) -> None:
    with scripted(lost, lost, OK) as script, connected(script) as (client, pauses):
        assert client.get("/catalogs/a") == DOCUMENT

    assert [each.path for each in script.asked] == ["/api/v1/catalogs/a"] * 3
    assert len(pauses) == 2
    assert all("idempotency-key" not in each.headers for each in script.asked)


@pytest.mark.parametrize(
    "lost", [CUT, refusal(Unavailable("x")), refusal(Unknown("x")), Reply(502)]
)
def test_a_read_that_stays_lost_is_unavailable_and_never_in_doubt(lost: Reply) -> None:
    with (
        scripted(lost) as script,
        connected(script) as (client, pauses),
        pytest.raises(Unavailable),
    ):
        client.get("/catalogs/a")

    assert len(script.asked) == len(pauses) + 1 == 5


def test_the_pause_is_as_long_as_the_server_asks_for() -> None:
    busy = Reply(503, b"{}", headers={"Retry-After": "3"})
    with scripted(busy, OK) as script, connected(script) as (client, pauses):
        client.get("/catalogs")

    [pause_ms] = pauses
    assert 3_000 <= pause_ms < 4_000


@pytest.mark.parametrize(
    "lost",
    [
        CUT,
        refusal(Unavailable("x")),
        refusal(Unknown("x")),
        refusal(errors.Fenced("x")),
        Reply(502),
    ],
)
def test_a_change_is_sent_again_with_the_same_key(lost: Reply) -> None:
    with scripted(lost, lost, Reply(201, DOCUMENT)) as script, connected(script) as (client, _):
        assert client.change("POST", "/catalogs", {"name": "a"}) == DOCUMENT
        client.change("POST", "/catalogs", {"name": "a"})

    first, second, third, another = script.asked
    assert first.body == second.body == third.body == b'{"name":"a"}'
    keys = [each.headers["idempotency-key"] for each in (first, second, third)]
    assert len(set(keys)) == 1
    assert another.headers["idempotency-key"] not in keys


@pytest.mark.parametrize(
    ("replies", "error"),
    [
        ((CUT,), Unknown),
        ((refusal(Unknown("x")),), Unknown),
        ((Reply(500),), Unknown),
        ((refusal(Unavailable("x")),), Unavailable),
        ((CUT, refusal(Unavailable("x"))), Unknown),
        ((CUT, refusal(Unauthenticated("x"))), Unknown),
        ((CUT, Reply(404, b"<html>", "text/html")), Unknown),
        ((Reply(200, b"<html>", "text/html"),), Unknown),
        ((CUT, refusal(AlreadyExists("x"))), AlreadyExists),
        ((refusal(Unavailable("x")), refusal(Denied("x"))), Denied),
    ],
)
def test_a_change_in_doubt_is_unknown_and_one_that_was_turned_away_is_not(
    replies: tuple[Reply, ...], error: type[ArcoError]
) -> None:
    with (
        scripted(*replies) as script,
        connected(script) as (client, _),
        pytest.raises(error) as caught,
    ):
        client.change("DELETE", "/catalogs/a")

    assert type(caught.value) is error


@pytest.mark.parametrize("kind", KINDS)
def test_every_error_comes_back_as_what_it_was(kind: type[ArcoError]) -> None:
    with (
        scripted(refusal(kind("about the request"))) as script,
        connected(script) as (client, _),
        pytest.raises(ArcoError) as caught,
    ):
        client.change("POST", "/catalogs", {})

    assert type(caught.value) is (kind if "code" in vars(kind) else kind.__base__)
    steps = getattr(caught.value, "__notes__", [])
    has_none = type(caught.value) in (Invalid, Unknown, Unsupported)
    assert len(steps) == (0 if has_none else 1)


@pytest.mark.parametrize(
    "reply",
    [
        Reply(200, b"<html>", "text/html"),
        Reply(404, b"<html>", "text/html"),
        Reply(302, b"", "text/html", {"Location": "http://elsewhere.example/"}),
    ],
)
def test_a_server_that_is_not_arco_is_recognised(reply: Reply) -> None:
    with (
        scripted(reply) as script,
        connected(script, "secret") as (client, _),
        pytest.raises(Unsupported, match="did not answer like an Arco"),
    ):
        client.get("/catalogs")

    assert len(script.asked) == 1


def test_a_list_is_read_to_its_end() -> None:
    pages = [
        Reply(200, b'{"items": [1, 2], "next_page_token": "a b&c"}'),
        Reply(200, b'{"items": [], "next_page_token": "d"}'),
        Reply(200, b'{"items": [3], "next_page_token": null}'),
    ]
    with scripted(*pages) as script, connected(script) as (client, _):
        items = [json.loads(bytes(each)) for page in client.pages("/catalogs") for each in page]

    assert items == [1, 2, 3]
    assert "page_token" not in script.asked[0].path
    assert script.asked[1].path.endswith("page_token=a+b%26c")


def test_the_token_comes_from_the_variable_or_from_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "token"
    file.write_text("from-a-file\n")
    monkeypatch.setenv("ARCO_TOKEN", "from-the-variable")
    with scripted(OK) as script:
        for server in (Server(script.url), Server(script.url, str(file))):
            with server.open() as client:
                client.transport.get("/catalogs")
        monkeypatch.delenv("ARCO_TOKEN")
        with Server(script.url).open() as client:
            client.transport.get("/catalogs")

    first, second, third = (each.headers.get("authorization") for each in script.asked)
    assert (first, second, third) == ("Bearer from-the-variable", "Bearer from-a-file", None)


@pytest.mark.parametrize("text", ["two words", "a\x1b[31m", "ü"])
def test_a_token_that_cannot_be_sent_is_refused_without_showing_it(text: str) -> None:
    run = arco("catalog", "list", ARCO_TOKEN=text)

    assert run.returncode == 2
    assert is_one_sentence(run.stderr)
    assert text not in run.stderr


def test_a_url_without_a_server_is_reported_at_once() -> None:
    run = arco("table", "list", "--url", "http://127.0.0.1:1")

    assert run.returncode == 1
    assert run.stderr == (
        "arco: no Arco is running at http://127.0.0.1:1. Start one with `arco up`, or name another "
        "with --url.\n"
    )


@pytest.mark.parametrize(
    "url",
    [
        "ftp://x",
        "127.0.0.1:8181",
        "http://",
        "http://a?b=c",
        "http://u:p@a",
        "http://[",
        "http://a:b",
        "",
    ],
)
def test_what_is_no_url_of_a_server_is_refused(url: str) -> None:
    with pytest.raises(Invalid):
        Transport(url)


def test_a_change_whose_answer_was_lost_is_made_once(tmp_path: Path) -> None:
    with serving(tmp_path / "store") as served:
        with losing_answers(served.url, 2) as url:
            run = served.arco("catalog", "create", "lake", "--json", ARCO_URL=url)
        versions = served.items("catalog", "history", "lake")

    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout)["name"] == "lake"
    assert len(versions) == 1


def test_where_tokens_are_asked_for_one_is_needed(tmp_path: Path) -> None:
    root, file = tmp_path / "store", tmp_path / "token"
    with serving(root, "--auth", "local") as served:
        file.write_text(arco("token", "mint", "user:ana", "--root", root).stdout)
        stranger = served.arco("catalog", "list")
        forger = served.arco("catalog", "list", ARCO_TOKEN="e30.e30.e30")
        authenticated = served.arco(
            "catalog", "create", "lake", "--json", ARCO_TOKEN_FILE=str(file)
        )

    for run in (stranger, forger):
        assert run.returncode == 1
        assert is_one_sentence(run.stderr)
        assert "Set ARCO_TOKEN" in run.stderr
        assert "e30" not in run.stderr
    assert json.loads(authenticated.stdout)["created_by"] == "user:ana"


def test_a_store_that_contradicts_itself_leads_to_verify() -> None:
    with (
        scripted(refusal(Corrupt("x"))) as script,
        connected(script) as (client, _),
        pytest.raises(Corrupt) as caught,
    ):
        client.get("/catalogs")

    assert "arco verify" in caught.value.__notes__[0]


def test_what_an_older_arco_does_not_know_is_not_taken_for_a_missing_object() -> None:
    body = b'{"code": "no_such_route", "detail": "there is no such route"}'
    with (
        scripted(Reply(404, body, CONTENT_TYPE)) as script,
        connected(script) as (client, _),
        pytest.raises(ArcoError) as caught,
    ):
        client.get("/catalogs")

    assert not isinstance(caught.value, NotFound)


def test_the_hint_of_a_server_about_something_missing_is_shown_unchanged() -> None:
    missing = NotFound("there is no run 'x'")
    missing.add_note("Check its id; `arco runs` lists all runs.")
    for error, step in (
        (missing, missing.__notes__[0]),
        (NotFound("there is no catalog 'x'"), "Check the name and `as_of`."),
    ):
        with (
            scripted(refusal(error)) as script,
            connected(script) as (client, _),
            pytest.raises(NotFound) as caught,
        ):
            client.get("/runs/x")
        assert caught.value.__notes__ == [step]
