"""POST /api/v1/events: what is acknowledged is durable, and every line has its answer."""

import gzip
import json
from uuid import uuid4

import httpx2
import pytest

from arco.events.registry import KINDS
from tests.api.events import NDJSON, URL, ids_of, ledger, lines, observed, post, started
from tests.api.server import Served

GZIP = {"Content-Encoding": "gzip"}


def _name() -> str:
    return uuid4().hex


def test_one_event_is_acknowledged_and_durable(api: Served, http: httpx2.Client) -> None:
    run = _name()
    answer = http.post(URL, json=started(run))
    assert answer.status_code == 200
    document = answer.json()
    assert document == {
        "accepted": 1,
        "event_ids": document["event_ids"],
        "duplicates": [],
        "refused": [],
    }
    assert ids_of(api, run) == document["event_ids"]


@pytest.mark.parametrize("form", ["array", "lines", "packed array", "packed lines"])
def test_a_batch_is_taken_in_every_form(api: Served, http: httpx2.Client, form: str) -> None:
    runs = [_name() for _ in range(5)]
    events = [started(run) for run in runs]
    is_lines = "lines" in form
    body = lines(*events) if is_lines else json.dumps(events).encode()
    headers = NDJSON if is_lines else {"Content-Type": "application/json; charset=utf-8"}
    if "packed" in form:
        body, headers = gzip.compress(body), {**headers, **GZIP}
    answer = http.post(URL, content=body, headers=headers)
    assert (answer.status_code, answer.json()["accepted"]) == (200, 5)
    assert ids_of(api, *runs) == answer.json()["event_ids"]


def test_every_example_of_an_event_is_accepted_unless_only_arco_may_send_it(
    http: httpx2.Client,
) -> None:
    for kind in KINDS:
        event = started(event_type=kind.name, event_version=kind.version, payload=kind.example)
        answer = post(http, event)
        assert answer.status_code == (422 if kind.is_internal else 200), (kind.name, answer.text)


def test_bad_lines_are_refused_by_number_and_the_other_lines_stored(
    api: Served, http: httpx2.Client
) -> None:
    runs = [_name(), _name()]
    body = b"\n".join(
        [
            lines(started(runs[0])),
            b"",
            b"{oops",
            lines(started(event_type="never_heard_of")),
            lines(started(runs[1])),
            lines(started(event_version=9)),
            lines(started(payload={"execution_id": 7})),
            lines(started(timestamp="2026-05-01T10:00:00Z")),
            b"[" * 50_000,
            lines(started(payload={"a": json.loads("[" * 900 + "]" * 900)})),
        ]
    )
    answer = http.post(URL, content=body, headers=NDJSON)
    document = answer.json()
    assert (answer.status_code, document["accepted"]) == (200, 2)
    assert [each["line"] for each in document["refused"]] == [3, 4, 6, 7, 8, 9, 10]
    reasons = [each["reason"] for each in document["refused"]]
    assert "unknown event type" in reasons[1]
    assert "unknown version 9" in reasons[2]
    assert "payload of execution_started" in reasons[3]
    assert "timestamp" in reasons[4]
    assert all(len(reason) <= 300 for reason in reasons)
    assert len(ids_of(api, *runs)) == 2


def test_a_batch_without_a_good_line_is_422_and_says_what_is_wrong_with_each(
    http: httpx2.Client,
) -> None:
    answer = post(http, {"x": 1}, started(event_version=0))
    assert (answer.status_code, answer.json()["code"]) == (422, "events_refused")
    assert answer.headers["content-type"] == "application/problem+json"
    assert [each["line"] for each in answer.json()["refused"]] == [1, 2]
    assert "line 1" in answer.json()["detail"]
    assert post(http, started(), {"x": 1}).status_code == 200


def test_nothing_of_a_refused_line_is_stored(api: Served, http: httpx2.Client) -> None:
    before = len(ledger(api))
    post(http, started(event_version=9), {"x": 1})
    assert len(ledger(api)) == before


def test_duplicates_are_reported_within_a_request_and_from_one_to_the_next(
    api: Served, http: httpx2.Client
) -> None:
    run, key = _name(), _name()
    first = post(http, started(run, idempotency_key=key), started(run, idempotency_key=key))
    assert first.json()["accepted"] == 1
    assert first.json()["duplicates"] == [{"line": 2, "idempotency_key": key}]
    repeated = post(http, started(run, idempotency_key=key)).json()
    assert (repeated["accepted"], repeated["refused"]) == (0, [])
    assert repeated["duplicates"] == [{"line": 1, "idempotency_key": key}]
    assert ids_of(api, run) == first.json()["event_ids"]


def test_an_event_without_a_key_is_known_again_by_its_id(api: Served, http: httpx2.Client) -> None:
    run, own = _name(), "01M7FR7CFYVQA6VZZEZ2VJY5WE"
    assert post(http, started(run, event_id=own)).json()["event_ids"] == [own]
    assert post(http, started(run, event_id=own)).json()["duplicates"][0]["line"] == 1
    assert ids_of(api, run) == [own]


def test_the_time_of_receipt_is_ours(api: Served, http: httpx2.Client) -> None:
    run = _name()
    refused = post(http, started(run, received_at="2020-01-01T00:00:00Z"))
    assert refused.status_code == 422
    post(http, started(run))
    [event] = [each for each in ledger(api) if run.encode() in bytes(each.payload)]
    now_ms = api.services.runtime.clock.now_ms()
    assert abs(event.received_at.timestamp() * 1000 - now_ms) < 60_000


def test_events_of_several_domains_go_each_to_its_own_ledger(
    api: Served, http: httpx2.Client
) -> None:
    run, key = _name(), _name()
    document = post(http, started(run), observed(idempotency_key=key)).json()
    assert document["accepted"] == 2
    assert [each.event_id for each in ledger(api, "lineage") if each.idempotency_key == key] == [
        document["event_ids"][1]
    ]
    assert ids_of(api, run) == document["event_ids"][:1]


def test_a_batch_of_ten_thousand_is_taken_and_one_more_is_not(http: httpx2.Client) -> None:
    body = lines(*[started(f"many-{n}") for n in range(10_000)])
    answer = http.post(URL, content=body, headers=NDJSON)
    assert (answer.status_code, answer.json()["accepted"]) == (200, 10_000)
    more = http.post(URL, content=body + b"\n" + lines(started()), headers=NDJSON)
    assert (more.status_code, more.json()["code"]) == (400, "invalid")
    array = json.dumps([1] * 10_001).encode()
    assert (
        http.post(URL, content=array, headers={"Content-Type": "application/json"}).status_code
        == 400
    )


def test_an_empty_batch_is_no_trouble(http: httpx2.Client) -> None:
    nothing = {"accepted": 0, "event_ids": [], "duplicates": [], "refused": []}
    assert post(http).json() == nothing
    assert http.post(URL, content=b"\n\n", headers=NDJSON).json() == nothing


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"null", b"7", b'"text"', b"nope", b"[1", b"\xff\xfe", b"[" * 100_000, b"[{},]"),
        b"[" + b"[" * 200_000 + b"]",
    ],
)
def test_a_body_that_is_no_batch_is_400(http: httpx2.Client, body: bytes) -> None:
    answer = http.post(URL, content=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid")


@pytest.mark.parametrize("kind", [None, "text/plain", "application/xml"])
def test_a_body_of_another_type_is_415(http: httpx2.Client, kind: str | None) -> None:
    headers = {} if kind is None else {"Content-Type": kind}
    answer = http.post(URL, content=lines(started()), headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (415, "not_json")


def test_a_bomb_of_gzip_is_413_and_broken_gzip_400(http: httpx2.Client) -> None:
    headers = {**NDJSON, **GZIP}
    bomb = gzip.compress(b"\n" * 200_000_000)
    assert http.post(URL, content=bomb, headers=headers).status_code == 413
    for broken in (b"nonsense", gzip.compress(lines(started()))[:-9], gzip.compress(b"x") + b"y"):
        answer = http.post(URL, content=broken, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (400, "invalid")
    assert (
        http.post(URL, content=b"", headers={**NDJSON, "Content-Encoding": "br"}).status_code == 415
    )


def test_a_body_beyond_its_limit_is_413(api: Served, http: httpx2.Client) -> None:
    most = api.services.limits.events_bytes
    answer = http.post(URL, content=b" " * (most + 1), headers=NDJSON)
    assert (answer.status_code, answer.json()["code"]) == (413, "body_too_large")


def test_a_batch_of_too_many_rows_is_413_with_or_without_a_key(http: httpx2.Client) -> None:
    keys = [f"d={number}" for number in range(100)]
    payload = {
        "soundness": "exact",
        "inputs": [{"table_id": "a", "partitions": keys}],
        "outputs": [{"table_id": "b", "partitions": keys}],
    }
    event = started(event_type="lineage_observed", payload=payload)
    body = lines(*[event] * 100)
    for headers in (NDJSON, {**NDJSON, "Idempotency-Key": _name()}):
        answer = http.post(URL, content=body, headers=headers)
        problem = answer.json()
        assert (answer.status_code, problem["code"]) == (413, "too_many_rows"), problem
        assert "these 100 events would become 1,000,200 rows" in problem["detail"]
        assert "several requests" in problem["next_step"]
        assert answer.headers["content-type"] == "application/problem+json"
    assert http.post(URL, content=lines(*[event] * 99), headers=NDJSON).json()["accepted"] == 99


def test_a_line_beyond_its_limit_is_refused_alone(http: httpx2.Client) -> None:
    huge = started(payload={"execution_id": "x" * 2_000_000, "pipeline_id": "p"})
    answer = http.post(URL, content=lines(huge, started()), headers=NDJSON)
    assert answer.json()["accepted"] == 1
    assert "at most" in answer.json()["refused"][0]["reason"]


def test_a_large_batch_goes_into_several_segments(api: Served, http: httpx2.Client) -> None:
    runs = [_name() for _ in range(14)]
    events = [
        started(
            event_type="execution_completed",
            payload={"execution_id": run, "status": "FAILED", "error_message": "x" * 60_000},
        )
        for run in runs * 14
    ]
    answer = http.post(URL, content=lines(*events), headers=NDJSON)
    assert answer.json()["accepted"] == len(events), answer.text
    assert ids_of(api, *runs) == answer.json()["event_ids"]


def test_strange_headers_and_methods_are_refused(http: httpx2.Client) -> None:
    assert http.get(URL).status_code == 405
    assert http.post(f"{URL}?a=1", json=started()).status_code == 400
    assert http.post(URL, json=started(), headers={"Idempotency-Key": "x" * 256}).status_code == 400


def test_events_are_counted(http: httpx2.Client) -> None:
    def counted(name: str) -> float:
        text = http.get("/metrics").text
        actual = [line for line in text.splitlines() if line.startswith(name)]
        return sum(float(line.rpartition(" ")[2]) for line in actual)

    names = (
        "arco_events_accepted_total",
        "arco_events_refused_total",
        "arco_events_duplicate_total",
    )
    before = [counted(name) for name in names]
    post(http, started(idempotency_key=(key := _name())), started(), {"x": 1})
    event = started("r", idempotency_key=key)
    post(http, event, event)
    after = [counted(name) for name in names]
    assert [new - old for new, old in zip(after, before, strict=True)] == [3, 1, 1]
