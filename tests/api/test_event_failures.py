"""Events under a key, and on a store that fails: nothing is stored twice under other ids, or denied."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import httpx2
import pytest

from arco.core.errors import Unavailable
from arco.storage.backend import Backend
from arco.storage.retry import StoreRetryPolicy
from tests.api.events import NDJSON, URL, ids_of, ledger, lines, observed, post, started
from tests.api.server import Options, Served, served
from tests.api.slow_store import Slow

HASTY = StoreRetryPolicy(
    attempts=2, first_pause_ms=1, longest_pause_ms=2, budget_ms=500, attempt_ms=500
)


class Picky(Slow):
    """A store that does not answer about some keys."""

    silent: tuple[str, ...] = ()
    reads = False  # whether it answers reads all the same
    applies = False  # whether a create that is not answered takes effect

    async def create(self, key: str, body: bytes) -> None:
        if any(part in key for part in self.silent):
            if self.applies:
                await super().create(key, body)
            raise Unavailable("no answer")
        await super().create(key, body)

    async def get(self, key: str) -> bytes:
        if not self.reads and any(part in key for part in self.silent):
            raise Unavailable("no answer")
        return await super().get(key)


@pytest.fixture
def picky(tmp_path: Path) -> Iterator[tuple[Served, Picky]]:
    stores: list[Picky] = []

    def wrap(inner: Backend) -> Backend:
        stores.append(Picky(inner))
        return stores[0]

    with served(tmp_path / "store", Options(wrap=wrap, retry=HASTY)) as api:
        yield api, stores[0]
        stores[0].silent = ()


def test_a_batch_under_its_key_is_stored_once_and_always_answered_the_same(
    api: Served, http: httpx2.Client
) -> None:
    run, key = uuid4().hex, f"batch {uuid4()}"
    events = (started(run), {"x": 1}, started(run, idempotency_key="k"))
    first = post(http, *events, key=key)
    assert (first.status_code, first.json()["accepted"]) == (200, 2)
    for _ in range(3):
        repeated = post(http, *events, key=key)
        assert (repeated.status_code, repeated.json()) == (200, first.json())
    assert ids_of(api, run) == first.json()["event_ids"]


def test_a_key_that_was_used_for_another_batch_is_422(http: httpx2.Client) -> None:
    key = f"batch {uuid4()}"
    assert post(http, started("a"), key=key).status_code == 200
    other = post(http, started("b"), key=key)
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused")


def test_a_refusal_under_a_key_is_kept_like_a_success(http: httpx2.Client) -> None:
    key = f"batch {uuid4()}"
    first = post(http, {"x": 1}, key=key)
    repeated = post(http, {"x": 1}, key=key)
    assert first.status_code == repeated.status_code == 422
    assert first.json() == repeated.json()
    assert post(http, {"x": 2}, key=key).json()["code"] == "idempotency_key_reused"


def test_a_retry_after_a_crash_stores_the_same_events_under_the_same_ids(
    picky: tuple[Served, Picky], tmp_path: Path
) -> None:
    api, store = picky
    run, key = uuid4().hex, "after a crash"
    events = [started(run) for _ in range(3)]
    store.reads = True
    store.silent = ("/0001.json",)  # the outcome: the events are stored, but not acknowledged
    with api.client() as http:
        lost = post(http, *events, key=key)
    assert (lost.status_code, lost.json()["code"]) == (504, "unknown_outcome")
    stored = ids_of(api, run)
    assert len(stored) == 3
    with served(tmp_path / "store") as another, another.client() as http:
        answer = _patiently(http, events, key)
        assert answer.json()["event_ids"] == stored
        assert set(ids_of(another, run)) == set(stored)
        repeated = post(http, *events, key=key)
        assert repeated.json() == answer.json()


def test_events_that_cannot_be_stored_are_503_and_can_be_sent_again(
    picky: tuple[Served, Picky],
) -> None:
    api, store = picky
    run, event_key = uuid4().hex, uuid4().hex
    store.silent = ("sequence/",)
    with api.client() as http:
        down = post(http, started(run, idempotency_key=event_key))
        assert (down.status_code, down.json()["code"]) == (503, "unavailable")
        assert down.headers["retry-after"]
        store.silent = ()
        repeated = post(http, started(run, idempotency_key=event_key)).json()
    assert (repeated["accepted"], repeated["duplicates"]) == (1, [])
    assert len(ids_of(api, run)) == 1


@pytest.mark.parametrize("applies", [True, False])
def test_an_append_that_is_not_answered_is_never_called_a_failure_or_a_success(
    picky: tuple[Served, Picky], applies: bool
) -> None:
    api, store = picky
    run, event = uuid4().hex, uuid4().hex
    with api.client() as http:
        post(http, started("before"))
        store.silent, store.applies = (".jsonl",), applies
        unclear = post(http, started(run, idempotency_key=event))
        assert (unclear.status_code, unclear.json()["code"]) == (504, "unknown_outcome")
        store.silent = ()
        repeated = post(http, started(run, idempotency_key=event))
        assert repeated.json()["accepted"] == 1
    keys = {each.idempotency_key for each in ledger(api)}
    assert event in keys


def test_a_batch_of_which_one_domain_is_stored_is_unknown_not_failed(
    picky: tuple[Served, Picky],
) -> None:
    api, store = picky
    run, key = uuid4().hex, uuid4().hex
    batch = (started(run, idempotency_key=key), observed(idempotency_key=key))
    with api.client() as http:
        store.silent = ("sequence/lineage",)
        half = post(http, *batch)
        assert (half.status_code, half.json()["code"]) == (504, "unknown_outcome")
        store.silent = ()
        repeated = post(http, *batch).json()
    assert [each["line"] for each in repeated["duplicates"]] == [1]
    assert repeated["accepted"] == 1
    assert len(ids_of(api, run)) == len(ledger(api, "lineage")) == 1


def test_what_was_acknowledged_is_there_after_the_server_has_ended(tmp_path: Path) -> None:
    with served(tmp_path / "store") as api, api.client() as http:
        document = http.post(URL, content=lines(*[started() for _ in range(50)]), headers=NDJSON)
        acknowledged = document.json()["event_ids"]
    with served(tmp_path / "store") as api:
        assert [each.event_id for each in ledger(api)] == acknowledged


def _patiently(http: httpx2.Client, events: list[dict[str, object]], key: str) -> httpx2.Response:
    """The answer once the claim of the process that is gone may be taken over."""
    for _ in range(100):
        answer = post(http, *events, key=key)
        if answer.status_code != 503:
            return answer
        assert json.loads(answer.content)["code"] == "in_progress"
        time.sleep(0.1)
    raise AssertionError(answer.text)
