"""A plain HTTP client and the create request of each dialect, for tests that look at the wire."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPConnection
from urllib.parse import quote, urlsplit

from tests.faults.running import RunningServer

BUCKET = "bucket"


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)


def send(
    server: RunningServer,
    method: str,
    path: str,
    body: bytes = b"",
    headers: Mapping[str, str] | None = None,
    *,
    timeout_s: float = 5,
) -> Answer:
    """One request on a connection of its own; nothing is retried and nothing is hidden."""
    connection = HTTPConnection(urlsplit(server.endpoint).netloc, timeout=timeout_s)
    try:
        connection.request(method, path, body, dict(headers or {}))
        response = connection.getresponse()
        received = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, received, response.read())
    finally:
        connection.close()


@dataclass(frozen=True)
class Wire:
    """How one dialect creates and reads an object, and what it calls what may happen."""

    name: str
    create_method: str
    create_path: str
    create_headers: Mapping[str, str]
    read_path: str
    created: int
    exists: tuple[int, bytes]
    conflict: tuple[int, bytes]
    throttled: tuple[int, bytes]
    slow_down: tuple[int, bytes]
    unavailable: tuple[int, bytes]
    internal: tuple[int, bytes]

    def create(
        self, server: RunningServer, key: str, body: bytes, *, timeout_s: float = 5
    ) -> Answer:
        path = self.create_path.format(bucket=BUCKET, key=quote(key, safe=""))
        return send(
            server, self.create_method, path, body, self.create_headers, timeout_s=timeout_s
        )

    def read(self, server: RunningServer, key: str, *, timeout_s: float = 5) -> Answer:
        path = self.read_path.format(bucket=BUCKET, key=quote(key, safe=""))
        return send(server, "GET", path, timeout_s=timeout_s)

    def __str__(self) -> str:
        return self.name


S3 = Wire(
    name="s3",
    create_method="PUT",
    create_path="/{bucket}/{key}",
    create_headers={"If-None-Match": "*"},
    read_path="/{bucket}/{key}",
    created=200,
    exists=(412, b"<Code>PreconditionFailed</Code>"),
    conflict=(409, b"<Code>ConditionalRequestConflict</Code>"),
    throttled=(429, b"<Code>TooManyRequests</Code>"),
    slow_down=(503, b"<Code>SlowDown</Code>"),
    unavailable=(503, b"<Code>ServiceUnavailable</Code>"),
    internal=(500, b"<Code>InternalError</Code>"),
)
GCS_XML = Wire(
    name="gcs-xml",
    create_method="PUT",
    create_path="/_gcs/{bucket}/{key}",
    create_headers={"x-goog-if-generation-match": "0"},
    read_path="/_gcs/{bucket}/{key}",
    created=200,
    exists=(412, b"<Code>PreconditionFailed</Code>"),
    conflict=(409, b"<Code>OperationAborted</Code>"),
    throttled=(429, b"<Code>SlowDown</Code>"),
    slow_down=(503, b"<Code>SlowDown</Code>"),
    unavailable=(503, b"<Code>ServiceUnavailable</Code>"),
    internal=(500, b"<Code>InternalError</Code>"),
)
GCS_JSON = Wire(
    name="gcs-json",
    create_method="POST",
    create_path="/_gcs/upload/storage/v1/b/{bucket}/o?uploadType=media&name={key}"
    "&ifGenerationMatch=0",
    create_headers={"Content-Type": "application/octet-stream"},
    read_path="/_gcs/storage/v1/b/{bucket}/o/{key}?alt=media",
    created=200,
    exists=(412, b'"reason": "conditionNotMet"'),
    conflict=(409, b'"reason": "conflict"'),
    throttled=(429, b'"reason": "rateLimitExceeded"'),
    slow_down=(503, b'"reason": "backendError"'),
    unavailable=(503, b'"reason": "backendError"'),
    internal=(500, b'"reason": "internalError"'),
)
AZURE = Wire(
    name="azure",
    create_method="PUT",
    create_path="/_azure/account/{bucket}/{key}",
    create_headers={"If-None-Match": "*", "x-ms-blob-type": "BlockBlob"},
    read_path="/_azure/account/{bucket}/{key}",
    created=201,
    exists=(409, b"<Code>BlobAlreadyExists</Code>"),
    conflict=(409, b"<Code>ContainerBeingDeleted</Code>"),
    throttled=(429, b"<Code>TooManyRequests</Code>"),
    slow_down=(503, b"<Code>ServerBusy</Code>"),
    unavailable=(503, b"<Code>ServerBusy</Code>"),
    internal=(500, b"<Code>InternalError</Code>"),
)
WIRES = [S3, GCS_XML, GCS_JSON, AZURE]
