"""The S3 dialect, as boto3 sees it."""

import io
from datetime import UTC, datetime, timedelta
from threading import Barrier, Thread
from typing import TYPE_CHECKING

import pytest
from botocore.exceptions import ClientError

from tests.faults.bodies import large_body
from tests.faults.clients import boto3_client
from tests.faults.names import ODD_NAMES
from tests.faults.running import RunningServer, running_server
from tests.faults.script import Fault, Rule

if TYPE_CHECKING:
    from types_boto3_s3.client import S3Client

BUCKET = "bucket"


@pytest.fixture
def s3(server: RunningServer) -> "S3Client":
    return boto3_client(server)


def error_code(error: ClientError) -> tuple[int, str]:
    return error.response["ResponseMetadata"]["HTTPStatusCode"], error.response["Error"]["Code"]


def test_a_create_succeeds_once(s3: "S3Client") -> None:
    s3.put_object(Bucket=BUCKET, Key="k", Body=b"first", IfNoneMatch="*")
    with pytest.raises(ClientError) as raised:
        s3.put_object(Bucket=BUCKET, Key="k", Body=b"second", IfNoneMatch="*")
    assert error_code(raised.value) == (412, "PreconditionFailed")
    assert s3.get_object(Bucket=BUCKET, Key="k")["Body"].read() == b"first"


def test_an_overwrite_replaces_and_a_stale_update_does_not(s3: "S3Client") -> None:
    first = s3.put_object(Bucket=BUCKET, Key="k", Body=b"first")
    s3.put_object(Bucket=BUCKET, Key="k", Body=b"second", IfMatch=first["ETag"])
    with pytest.raises(ClientError) as raised:
        s3.put_object(Bucket=BUCKET, Key="k", Body=b"third", IfMatch=first["ETag"])
    assert error_code(raised.value) == (412, "PreconditionFailed")
    with pytest.raises(ClientError) as raised:
        s3.put_object(Bucket=BUCKET, Key="absent", Body=b"x", IfMatch=first["ETag"])
    assert error_code(raised.value) == (404, "NoSuchKey")
    s3.put_object(Bucket=BUCKET, Key="k", Body=b"fourth")
    assert s3.get_object(Bucket=BUCKET, Key="k")["Body"].read() == b"fourth"


@pytest.mark.parametrize(
    ("asked", "expected"),
    [("bytes=2-4", b"234"), ("bytes=7-", b"789"), ("bytes=-3", b"789"), ("bytes=8-99", b"89")],
)
def test_a_range_brings_its_bytes(s3: "S3Client", asked: str, expected: bytes) -> None:
    s3.put_object(Bucket=BUCKET, Key="k", Body=b"0123456789")
    answer = s3.get_object(Bucket=BUCKET, Key="k", Range=asked)
    assert answer["Body"].read() == expected
    assert answer["ContentRange"].endswith("/10")
    assert answer["ResponseMetadata"]["HTTPStatusCode"] == 206


def test_a_range_beyond_the_end_is_refused(s3: "S3Client") -> None:
    s3.put_object(Bucket=BUCKET, Key="k", Body=b"0123456789")
    with pytest.raises(ClientError) as raised:
        s3.get_object(Bucket=BUCKET, Key="k", Range="bytes=10-12")
    assert error_code(raised.value) == (416, "InvalidRange")


def test_a_head_request_returns_size_time_tag_type_and_metadata(s3: "S3Client") -> None:
    put = s3.put_object(
        Bucket=BUCKET, Key="k", Body=b"12345", ContentType="text/csv", Metadata={"by": "me"}
    )
    head = s3.head_object(Bucket=BUCKET, Key="k")
    assert head["ContentLength"] == 5
    assert head["ETag"] == put["ETag"]
    assert head["ContentType"] == "text/csv"
    assert head["Metadata"] == {"by": "me"}
    assert abs(head["LastModified"] - datetime.now(UTC)) < timedelta(seconds=5)


def test_a_missing_object_is_not_found(s3: "S3Client") -> None:
    with pytest.raises(ClientError) as raised:
        s3.get_object(Bucket=BUCKET, Key="absent")
    assert error_code(raised.value) == (404, "NoSuchKey")


def test_a_read_can_ask_for_what_it_does_not_have(s3: "S3Client") -> None:
    put = s3.put_object(Bucket=BUCKET, Key="k", Body=b"1")
    with pytest.raises(ClientError) as raised:
        s3.get_object(Bucket=BUCKET, Key="k", IfNoneMatch=put["ETag"])
    assert raised.value.response["ResponseMetadata"]["HTTPStatusCode"] == 304


def test_a_delete_succeeds_whether_there_was_an_object_or_not(s3: "S3Client") -> None:
    s3.put_object(Bucket=BUCKET, Key="k", Body=b"1")
    s3.delete_object(Bucket=BUCKET, Key="k")
    s3.delete_object(Bucket=BUCKET, Key="k")
    assert "Contents" not in s3.list_objects_v2(Bucket=BUCKET)


def test_many_objects_are_deleted_at_once(s3: "S3Client", server: RunningServer) -> None:
    for key in ["a", "b & c", "d"]:
        s3.put_object(Bucket=BUCKET, Key=key, Body=b"1")
    deleted = s3.delete_objects(
        Bucket=BUCKET, Delete={"Objects": [{"Key": "a"}, {"Key": "b & c"}, {"Key": "absent"}]}
    )
    assert [entry["Key"] for entry in deleted["Deleted"]] == ["a", "b & c", "absent"]
    assert list(server.objects(BUCKET)) == ["d"]


def test_a_listing_comes_in_pages(s3: "S3Client") -> None:
    keys = [f"p/{number:03}" for number in range(25)]
    for key in keys:
        s3.put_object(Bucket=BUCKET, Key=key, Body=key.encode())
    s3.put_object(Bucket=BUCKET, Key="other", Body=b"1")
    pages = list(
        s3.get_paginator("list_objects_v2").paginate(
            Bucket=BUCKET, Prefix="p/", PaginationConfig={"PageSize": 10}
        )
    )
    assert [page["KeyCount"] for page in pages] == [10, 10, 5]
    listed = [entry for page in pages for entry in page["Contents"]]
    assert [entry["Key"] for entry in listed] == keys
    assert abs(listed[0]["LastModified"] - datetime.now(UTC)) < timedelta(seconds=5)


def test_a_listing_starts_after_a_name_and_rolls_up_at_a_delimiter(s3: "S3Client") -> None:
    for key in ["a", "b/1", "b/2", "c", "d/1"]:
        s3.put_object(Bucket=BUCKET, Key=key, Body=b"1")
    after = s3.list_objects_v2(Bucket=BUCKET, StartAfter="b/1")
    assert [entry["Key"] for entry in after["Contents"]] == ["b/2", "c", "d/1"]
    rolled = s3.list_objects_v2(Bucket=BUCKET, Delimiter="/")
    assert [entry["Key"] for entry in rolled["Contents"]] == ["a", "c"]
    assert [entry["Prefix"] for entry in rolled["CommonPrefixes"]] == ["b/", "d/"]


def test_odd_names_come_back_as_they_went(s3: "S3Client", server: RunningServer) -> None:
    for name in ODD_NAMES:
        s3.put_object(Bucket=BUCKET, Key=name, Body=name.encode())
        assert s3.get_object(Bucket=BUCKET, Key=name)["Body"].read() == name.encode()
    listed = [entry["Key"] for entry in s3.list_objects_v2(Bucket=BUCKET)["Contents"]]
    assert listed == sorted(ODD_NAMES) == list(server.objects(BUCKET))


def test_a_large_object_arrives_in_parts(s3: "S3Client", server: RunningServer) -> None:
    body = large_body()
    s3.upload_fileobj(io.BytesIO(body), BUCKET, "large")
    assert server.objects(BUCKET)["large"].body == body
    assert server.counts()["upload", "200"] > 2


def test_of_32_threads_that_create_one_key_one_wins(server: RunningServer) -> None:
    clients = [boto3_client(server) for _ in range(32)]
    start = Barrier(len(clients))
    outcomes: list[str] = []

    def create(number: int) -> None:
        start.wait()
        try:
            clients[number].put_object(
                Bucket=BUCKET, Key="k", Body=str(number).encode(), IfNoneMatch="*"
            )
            outcomes.append(f"won by {number}")
        except ClientError as error:
            outcomes.append(error_code(error)[1])

    threads = [Thread(target=create, args=(number,)) for number in range(len(clients))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    winner = server.objects(BUCKET)["k"].body.decode()
    assert sorted(outcomes) == ["PreconditionFailed"] * 31 + [f"won by {winner}"]


def test_boto3_sees_the_faults_as_s3_errors(s3: "S3Client", server: RunningServer) -> None:
    server.script.add(
        Rule(fault=Fault.CONFLICT_NOTHING_STORED, times=1), Rule(fault=Fault.SLOW_DOWN, times=1)
    )
    with pytest.raises(ClientError) as raised:
        s3.put_object(Bucket=BUCKET, Key="k", Body=b"1", IfNoneMatch="*")
    assert error_code(raised.value) == (409, "ConditionalRequestConflict")
    with pytest.raises(ClientError) as raised:
        s3.put_object(Bucket=BUCKET, Key="k", Body=b"1", IfNoneMatch="*")
    assert error_code(raised.value) == (503, "SlowDown")


def test_a_small_page_limit_shows_in_every_listing() -> None:
    with running_server(page_limit=2) as server:
        s3 = boto3_client(server)
        for key in "abc":
            s3.put_object(Bucket=BUCKET, Key=key, Body=b"1")
        page = s3.list_objects_v2(Bucket=BUCKET)
        assert [entry["Key"] for entry in page["Contents"]] == ["a", "b"]
        assert page["IsTruncated"]
