"""The three dialects of obstore, which is how the product sees a store.

The second half pins what obstore makes of each fault. The storage adapter stands on these facts,
and an upgrade of obstore that changes one must be noticed.
"""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import cast
from urllib.request import urlopen

import obstore
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from obstore.exceptions import AlreadyExistsError, GenericError, PreconditionError
from obstore.store import AzureStore, GCSStore, S3Store

from tests.faults.bodies import large_body
from tests.faults.clients import azure_store, gcs_store, s3_store
from tests.faults.names import ODD_NAMES
from tests.faults.operation import Verb
from tests.faults.running import RunningServer, running_server
from tests.faults.script import Fault, Rule

BUCKET = "bucket"
Store = S3Store | GCSStore | AzureStore
Opener = Callable[..., Store]

STORES: dict[str, Opener] = {"s3": s3_store, "gcs": gcs_store, "azure": azure_store}
every_store = pytest.mark.parametrize("open_store", STORES.values(), ids=STORES.keys())


@pytest.fixture
def store(server: RunningServer, open_store: Opener) -> Store:
    return open_store(server, BUCKET)


def read(store: Store, path: str) -> bytes:
    return bytes(obstore.get(store, path).bytes())


@every_store
def test_a_create_succeeds_once(store: Store) -> None:
    obstore.put(store, "a/k", b"first", mode="create")
    with pytest.raises(AlreadyExistsError):
        obstore.put(store, "a/k", b"second", mode="create")
    assert read(store, "a/k") == b"first"


@every_store
def test_an_overwrite_replaces_and_a_stale_update_does_not(store: Store) -> None:
    first = obstore.put(store, "k", b"first")
    version = {name: value for name, value in first.items() if value is not None}
    obstore.put(store, "k", b"second", mode=cast("obstore.UpdateVersion", version))
    with pytest.raises(PreconditionError):
        obstore.put(store, "k", b"third", mode=cast("obstore.UpdateVersion", version))
    obstore.put(store, "k", b"fourth")
    assert read(store, "k") == b"fourth"


@every_store
def test_a_range_brings_its_bytes(store: Store) -> None:
    obstore.put(store, "k", b"0123456789")
    assert bytes(obstore.get_range(store, "k", start=2, end=5)) == b"234"
    tail = obstore.get(store, "k", options={"range": {"offset": 7}})
    assert bytes(tail.bytes()) == b"789"


@every_store
def test_a_head_and_a_listing_agree_on_size_time_and_tag(store: Store) -> None:
    written = obstore.put(store, "k", b"12345")
    head = obstore.head(store, "k")
    (listed,) = obstore.list(store).collect()
    assert head["size"] == listed["size"] == 5
    assert head["e_tag"] == written["e_tag"]
    # Azure lists a tag without the quotes that it has in a header.
    assert (listed["e_tag"] or "").strip('"') == (head["e_tag"] or "").strip('"')
    assert abs(head["last_modified"] - datetime.now(UTC)) < timedelta(seconds=5)
    assert listed["last_modified"].replace(microsecond=0) == head["last_modified"]


@every_store
def test_a_missing_object_is_not_found(store: Store) -> None:
    with pytest.raises(FileNotFoundError):
        obstore.get(store, "absent")
    with pytest.raises(FileNotFoundError):
        obstore.head(store, "absent")


@every_store
def test_a_delete_removes_one_or_many(store: Store, server: RunningServer) -> None:
    for key in ["a", "b", "c", "d"]:
        obstore.put(store, key, b"1")
    obstore.delete(store, "a")
    obstore.delete(store, ["b", "c"])
    assert list(server.objects(BUCKET)) == ["d"]


def test_to_delete_what_is_not_there_fails_except_in_s3(server: RunningServer) -> None:
    obstore.delete(s3_store(server, BUCKET), "absent")
    for store in (gcs_store(server, BUCKET), azure_store(server, BUCKET)):
        with pytest.raises(FileNotFoundError):
            obstore.delete(store, "absent")


@every_store
def test_a_listing_comes_in_pages_and_from_an_offset(open_store: Opener) -> None:
    with running_server(page_limit=2) as server:
        store = open_store(server, BUCKET)
        keys = ["p/a", "p/b/1", "p/b/2", "p/c", "p/d/1", "p/e"]
        for key in [*keys, "q"]:
            obstore.put(store, key, b"1")
        assert [meta["path"] for meta in obstore.list(store, "p").collect()] == keys
        later = obstore.list(store, "p", offset="p/b/2").collect()
        assert [meta["path"] for meta in later] == ["p/c", "p/d/1", "p/e"]
        rolled = obstore.list_with_delimiter(store, "p")
        assert [meta["path"] for meta in rolled["objects"]] == ["p/a", "p/c", "p/e"]
        assert list(rolled["common_prefixes"]) == ["p/b", "p/d"]


@every_store
def test_odd_names_come_back_as_they_went(store: Store, server: RunningServer) -> None:
    for name in ODD_NAMES:
        obstore.put(store, name, name.encode(), mode="create")
        assert read(store, name) == name.encode()
    assert list(server.objects(BUCKET)) == sorted(ODD_NAMES)
    assert [meta["path"] for meta in obstore.list(store).collect()] == sorted(ODD_NAMES)
    obstore.delete(store, ODD_NAMES)
    assert server.objects(BUCKET) == {}


@every_store
def test_a_large_object_goes_whole_when_created_and_in_parts_when_overwritten(
    store: Store, server: RunningServer
) -> None:
    body = large_body()
    obstore.put(store, "large", body, mode="create")
    assert not [verb for verb, _ in server.counts() if verb == "upload"]
    assert read(store, "large") == body
    obstore.put(store, "large", body[::-1])
    assert server.objects(BUCKET)["large"].body == body[::-1]
    assert [verb for verb, _ in server.counts() if verb == "upload"]


@pytest.mark.parametrize("open_store", [s3_store, azure_store])
def test_a_signed_url_can_be_fetched_without_credentials(
    server: RunningServer, open_store: Opener
) -> None:
    store = open_store(server, BUCKET)
    obstore.put(store, "a b/k", b"signed")
    url = obstore.sign(store, "GET", "a b/k", timedelta(minutes=1))
    with urlopen(url, timeout=5) as answer:
        assert answer.read() == b"signed"


@pytest.fixture
def signing_gcs_store(server: RunningServer) -> GCSStore:
    """A store whose token answers for requests and whose key signs: neither is fetched."""
    private = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    )
    account = {"client_email": "a@b", "private_key_id": "1", "private_key": private.decode()}
    return GCSStore(
        BUCKET,
        config={
            "base_url": server.gcs_endpoint,
            "bearer_token": "token",
            "service_account_key": json.dumps(account),
        },
        client_options={"allow_http": True},
        retry_config={"max_retries": 0},
    )


def test_gcs_signs_with_a_service_accounts_own_key(signing_gcs_store: GCSStore) -> None:
    obstore.put(signing_gcs_store, "a b/k", b"signed")
    url = obstore.sign(signing_gcs_store, "GET", "a b/k", timedelta(minutes=1))
    with urlopen(url, timeout=5) as answer:
        assert answer.read() == b"signed"


def test_gcs_signs_the_url_of_another_object_for_a_name_with_encoded_dots(
    signing_gcs_store: GCSStore,
) -> None:
    """Whoever signs must refuse such names: obstore does not, and leaves even the bucket."""
    obstore.put(signing_gcs_store, "theirs/secret", b"secret")
    name = f"ours/%2e%2e/%2e%2e/{BUCKET}/theirs/secret"
    url = obstore.sign(signing_gcs_store, "GET", name, timedelta(minutes=1))
    with urlopen(url, timeout=5) as answer:
        assert answer.read() == b"secret"


STATUS_FAULTS = [
    (Fault.UNAVAILABLE_BEFORE, "503 Service Unavailable"),
    (Fault.SLOW_DOWN, "503 Service Unavailable"),
    (Fault.THROTTLED, "429 Too Many Requests"),
    (Fault.ERROR_AFTER, "500 Internal Server Error"),
]


@every_store
@pytest.mark.parametrize(("fault", "status"), STATUS_FAULTS)
def test_an_error_status_is_a_generic_error_that_names_it_only_in_its_text(
    store: Store, server: RunningServer, fault: Fault, status: str
) -> None:
    server.script.add(Rule(fault=fault))
    with pytest.raises(GenericError, match=f"non-2xx status code: {status}"):
        obstore.put(store, "k", b"1", mode="create")
    assert ("k" in server.objects(BUCKET)) is (fault is Fault.ERROR_AFTER)


@every_store
@pytest.mark.parametrize(
    ("rule", "kind"),
    [
        (Rule(fault=Fault.DROP_BEFORE), "Request"),
        (Rule(fault=Fault.DROP_AFTER), "Request"),
        (Rule(fault=Fault.DROP_AFTER, reset=True), "Interrupted"),
    ],
)
def test_a_dropped_connection_is_a_generic_error(
    store: Store, server: RunningServer, rule: Rule, kind: str
) -> None:
    server.script.add(rule)
    with pytest.raises(GenericError, match=r"HTTP error: error sending request") as raised:
        obstore.put(store, "k", b"1", mode="create")
    assert f"kind: {kind}," in str(raised.value)
    assert ("k" in server.objects(BUCKET)) is (rule.fault is Fault.DROP_AFTER)


@every_store
def test_a_conflict_that_stored_nothing_is_taken_for_an_existing_object(
    store: Store, server: RunningServer
) -> None:
    server.script.add(Rule(fault=Fault.CONFLICT_NOTHING_STORED))
    with pytest.raises(AlreadyExistsError):
        obstore.put(store, "k", b"1", mode="create")
    assert server.objects(BUCKET) == {}


@every_store
@pytest.mark.parametrize("fault", [Fault.ERROR_AFTER, Fault.DROP_AFTER])
def test_with_retries_our_own_create_is_taken_for_an_existing_object(
    server: RunningServer, open_store: Opener, fault: Fault
) -> None:
    server.script.add(Rule(fault=fault, verb=Verb.PUT, times=1))
    with pytest.raises(AlreadyExistsError):
        obstore.put(open_store(server, BUCKET, max_retries=2), "k", b"ours", mode="create")
    assert server.objects(BUCKET)["k"].body == b"ours"


@every_store
def test_without_retries_each_call_is_one_request(store: Store, server: RunningServer) -> None:
    obstore.put(store, "warm", b"1")
    server.script.add(Rule(fault=Fault.DROP_AFTER, key="k", times=1))
    with pytest.raises(GenericError):
        obstore.put(store, "k", b"1", mode="create")
    assert sum(server.counts().values()) == 2


def test_s3_takes_the_word_slowdown_in_a_deleted_name_for_an_error(server: RunningServer) -> None:
    store = s3_store(server, BUCKET)
    obstore.put(store, "SlowDown", b"1")
    with pytest.raises(GenericError, match="Server returned error response"):
        obstore.delete(store, "SlowDown")
    assert server.objects(BUCKET) == {}
