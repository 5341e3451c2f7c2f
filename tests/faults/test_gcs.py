"""The GCS dialect's JSON API, as Google's own client sees it."""

import io
from datetime import UTC, datetime, timedelta

import pytest
from google.api_core.exceptions import NotFound, PreconditionFailed, TooManyRequests
from google.cloud import storage

from tests.faults.bodies import large_body
from tests.faults.clients import gcs_client
from tests.faults.names import ODD_NAMES
from tests.faults.running import RunningServer, running_server
from tests.faults.script import Fault, Rule

BUCKET = "bucket"


@pytest.fixture
def client(server: RunningServer) -> storage.Client:
    return gcs_client(server)


@pytest.fixture
def bucket(client: storage.Client) -> storage.Bucket:
    return client.bucket(BUCKET)


def test_a_create_succeeds_once(bucket: storage.Bucket) -> None:
    bucket.blob("k").upload_from_string(b"first", if_generation_match=0)
    with pytest.raises(PreconditionFailed, match="conditionNotMet"):
        bucket.blob("k").upload_from_string(b"second", if_generation_match=0)
    assert bucket.blob("k").download_as_bytes() == b"first"


def test_an_update_names_the_generation_that_it_replaces(bucket: storage.Bucket) -> None:
    blob = bucket.blob("k")
    blob.upload_from_string(b"first")
    generation = blob.generation
    bucket.blob("k").upload_from_string(b"second", if_generation_match=generation)
    with pytest.raises(PreconditionFailed):
        bucket.blob("k").upload_from_string(b"third", if_generation_match=generation)
    bucket.blob("k").upload_from_string(b"fourth")
    assert bucket.blob("k").download_as_bytes() == b"fourth"


def test_metadata_has_size_time_tag_and_type(bucket: storage.Bucket) -> None:
    written = bucket.blob("k")
    written.metadata = {"by": "me"}
    written.upload_from_string(b"12345", content_type="text/csv")
    blob = bucket.get_blob("k")
    assert blob.size == 5
    assert blob.etag == written.etag
    assert blob.generation == written.generation
    assert blob.content_type == "text/csv"
    assert blob.metadata == {"by": "me"}
    assert abs(blob.updated - datetime.now(UTC)) < timedelta(seconds=5)


def test_a_range_brings_its_bytes(bucket: storage.Bucket) -> None:
    bucket.blob("k").upload_from_string(b"0123456789")
    assert bucket.blob("k").download_as_bytes(start=2, end=4) == b"234"
    assert bucket.blob("k").download_as_bytes(start=7) == b"789"


def test_a_missing_object_is_not_found(bucket: storage.Bucket) -> None:
    assert bucket.get_blob("absent") is None
    with pytest.raises(NotFound):
        bucket.blob("absent").download_as_bytes()
    with pytest.raises(NotFound):
        bucket.blob("absent").delete()


def test_a_delete_removes_and_a_stale_delete_does_not(bucket: storage.Bucket) -> None:
    blob = bucket.blob("k")
    blob.upload_from_string(b"1")
    with pytest.raises(PreconditionFailed):
        bucket.blob("k").delete(if_generation_match=blob.generation + 1)
    bucket.blob("k").delete(if_generation_match=blob.generation)
    assert bucket.get_blob("k") is None


def test_a_listing_comes_in_pages_and_rolls_up_at_a_delimiter() -> None:
    with running_server(page_limit=2) as server:
        client = gcs_client(server)
        for key in ["a", "b/1", "b/2", "c", "d/1"]:
            client.bucket(BUCKET).blob(key).upload_from_string(b"1")
        names = [blob.name for blob in client.list_blobs(BUCKET)]
        assert names == ["a", "b/1", "b/2", "c", "d/1"]
        below = [blob.name for blob in client.list_blobs(BUCKET, prefix="b/", start_offset="b/2")]
        assert below == ["b/2"]
        rolled = client.list_blobs(BUCKET, delimiter="/")
        assert [blob.name for blob in rolled] == ["a", "c"]
        assert rolled.prefixes == {"b/", "d/"}


def test_odd_names_come_back_as_they_went(
    client: storage.Client, bucket: storage.Bucket, server: RunningServer
) -> None:
    for name in ODD_NAMES:
        bucket.blob(name).upload_from_string(name.encode())
        assert bucket.blob(name).download_as_bytes() == name.encode()
    listed = [blob.name for blob in client.list_blobs(BUCKET)]
    assert listed == sorted(ODD_NAMES) == list(server.objects(BUCKET))


def test_a_large_object_is_uploaded_resumably_and_under_its_condition(
    bucket: storage.Bucket, server: RunningServer
) -> None:
    body = large_body()
    bucket.blob("large").upload_from_string(body, if_generation_match=0)
    assert bucket.blob("large").download_as_bytes() == body
    with pytest.raises(PreconditionFailed):
        bucket.blob("large").upload_from_string(body, if_generation_match=0)
    assert server.counts()["upload", "200"] == 2


def test_a_resumable_upload_may_come_in_chunks(
    bucket: storage.Bucket, server: RunningServer
) -> None:
    body = b"".join(bytes([number]) * 100_000 for number in range(10))
    bucket.blob("k", chunk_size=256 * 1024).upload_from_file(io.BytesIO(body))
    assert server.objects(BUCKET)["k"].body == body
    assert server.counts()["upload", "308"] == 3


def test_googles_client_sees_a_throttle_as_too_many_requests(
    bucket: storage.Bucket, server: RunningServer
) -> None:
    server.script.add(Rule(fault=Fault.THROTTLED))
    with pytest.raises(TooManyRequests, match="rateLimitExceeded"):
        bucket.blob("k").upload_from_string(b"1", retry=None)
