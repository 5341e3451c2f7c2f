"""Azure Blob with emulator-style addresses: ``/{account}/{container}/{blob}``."""

from collections.abc import Mapping
from typing import ClassVar

from tests.faults.azure_batch import answer_batch, read_batch
from tests.faults.dialect import (
    content_range,
    not_implemented,
    page_token,
    read_condition,
    read_cursor,
    read_range,
    unexpected,
    write_condition,
)
from tests.faults.http import Request, Response, http_date
from tests.faults.objects import Page, StoredObject
from tests.faults.operation import (
    CompleteUpload,
    Delete,
    Get,
    Head,
    List,
    OpenBucket,
    Operation,
    Put,
    PutPart,
)
from tests.faults.result import Deleted, Done, Fetched, Refusal, Success, Upload
from tests.faults.s3_xml import document, element, parse, texts

_VERSION = {"x-ms-version": "2025-11-05", "x-ms-request-id": "00000000-0000-0000-0000-000000000000"}
_XML = {"Content-Type": "application/xml"}
_METADATA = "x-ms-meta-"
# What a shared access signature adds to the query of any request.
_SIGNATURE = frozenset(["sv", "st", "se", "sr", "sp", "sig", "sip", "spr"])


class Azure:
    errors: ClassVar[Mapping[Refusal, tuple[int, str]]] = {
        Refusal.NOT_FOUND: (404, "BlobNotFound"),
        Refusal.NO_SUCH_UPLOAD: (400, "InvalidBlockList"),
        Refusal.ALREADY_EXISTS: (409, "BlobAlreadyExists"),
        Refusal.NOTHING_TO_UPDATE: (412, "ConditionNotMet"),
        Refusal.PRECONDITION_FAILED: (412, "ConditionNotMet"),
        Refusal.NOT_MODIFIED: (304, "ConditionNotMet"),
        Refusal.RANGE_NOT_SATISFIABLE: (416, "InvalidRange"),
        # A conflict that is not the blob's existence, and after which nothing is stored.
        Refusal.CONFLICT: (409, "ContainerBeingDeleted"),
        Refusal.THROTTLED: (429, "TooManyRequests"),
        Refusal.SLOW_DOWN: (503, "ServerBusy"),
        Refusal.UNAVAILABLE: (503, "ServerBusy"),
        Refusal.INTERNAL: (500, "InternalError"),
        Refusal.MALFORMED: (400, "InvalidInput"),
        Refusal.NOT_IMPLEMENTED: (501, "NotImplemented"),
    }

    def read(self, request: Request) -> Operation:
        _account, container, key = request.segments(3)
        if not key:
            return self._read_container(request, container)
        match request.method, request.query.get("comp"):
            case "PUT", "block":
                part = request.query["blockid"]
                body = request.body
                return PutPart(bucket=container, key=key, upload_id="", part=part, body=body)
            case "PUT", "blocklist":
                return CompleteUpload(
                    bucket=container,
                    key=key,
                    upload_id="",
                    parts=texts(parse(request.body), "Uncommitted"),
                    condition=write_condition(request),
                )
        if not request.query.keys() <= _SIGNATURE:
            raise not_implemented(request)
        return self._read_blob(request, container, key)

    def answer(self, request: Request, operation: Operation, result: Success) -> Response:
        match operation, result:
            case Put() | CompleteUpload(), StoredObject():
                return Response(201, _VERSION | _version_headers(result))
            case PutPart(), Upload():
                return Response(201, _VERSION)
            case Get(), Fetched():
                return _fetched(result)
            case Head(), Fetched():
                headers = _blob_headers(result.stored)
                return Response(200, headers, described_bytes=len(result.stored.body))
            case Delete(batch=True), Deleted():
                return answer_batch(operation, result)
            case Delete(), Deleted():
                if result.missing:
                    return self.refuse(Refusal.NOT_FOUND, "/".join(operation.keys))
                return Response(202, _VERSION)
            case List(), Page():
                return Response(200, _VERSION | _XML, _listing(operation, result))
            case OpenBucket(), Done():
                return Response(201 if request.method == "PUT" else 200, _VERSION)
        raise unexpected(operation, result)

    def refuse(self, refusal: Refusal, detail: str) -> Response:
        status, code = self.errors[refusal]
        headers = _VERSION | {"x-ms-error-code": code}
        if refusal is Refusal.NOT_MODIFIED:
            return Response(status, headers)
        body = document("Error", element("Code", code), element("Message", f"{code}: {detail}"))
        return Response(status, headers | _XML, body)

    def _read_blob(self, request: Request, container: str, key: str) -> Operation:
        match request.method:
            case "PUT" if request.headers.get("x-ms-blob-type") == "BlockBlob":
                return Put(
                    bucket=container,
                    key=key,
                    body=request.body,
                    content_type=request.headers.get(
                        "x-ms-blob-content-type", "application/octet-stream"
                    ),
                    metadata=_metadata(request),
                    condition=write_condition(request),
                )
            case "GET":
                return Get(
                    bucket=container,
                    key=key,
                    span=read_range(request),
                    condition=read_condition(request),
                )
            case "HEAD":
                return Head(bucket=container, key=key, condition=read_condition(request))
            case "DELETE":
                return Delete(bucket=container, keys=(key,), condition=write_condition(request))
        raise not_implemented(request)

    def _read_container(self, request: Request, container: str) -> Operation:
        query = request.query
        match request.method, query.get("comp"):
            case "GET", "list":
                start = query.get("startFrom", "")
                if query.get("marker"):
                    start = read_cursor(query["marker"])
                return List(
                    bucket=container,
                    prefix=query.get("prefix", ""),
                    start=start,
                    delimiter=query.get("delimiter", ""),
                    limit=min(int(query.get("maxresults", "5000")), 5000),
                )
            case "POST", "batch":
                return read_batch(request, container)
            case "PUT" | "GET" | "HEAD", None if query.get("restype") == "container":
                return OpenBucket(bucket=container)
        raise not_implemented(request)


def _version_headers(stored: StoredObject) -> dict[str, str]:
    return {"ETag": f'"{stored.version_etag}"', "Last-Modified": http_date(stored.modified)}


def _blob_headers(stored: StoredObject) -> dict[str, str]:
    return {
        **_VERSION,
        **_version_headers(stored),
        "Content-Type": stored.content_type,
        "Accept-Ranges": "bytes",
        "x-ms-blob-type": "BlockBlob",
        **{_METADATA + name: value for name, value in stored.metadata.items()},
    }


def _metadata(request: Request) -> dict[str, str]:
    return {
        name.removeprefix(_METADATA): value
        for name, value in request.headers.items()
        if name.startswith(_METADATA)
    }


def _fetched(fetched: Fetched) -> Response:
    headers = _blob_headers(fetched.stored)
    if fetched.span is None:
        return Response(200, headers, fetched.body)
    headers["Content-Range"] = content_range(fetched.span, len(fetched.stored.body))
    return Response(206, headers, fetched.body)


def _listing(operation: List, page: Page) -> bytes:
    prefixes = [
        f"<BlobPrefix>{element('Name', prefix)}</BlobPrefix>" for prefix in page.common_prefixes
    ]
    blobs = "".join([*(_blob(stored) for stored in page.objects), *prefixes])
    return document(
        "EnumerationResults",
        element("Prefix", operation.prefix),
        element("MaxResults", operation.limit),
        f"<Blobs>{blobs}</Blobs>",
        element("NextMarker", page_token(page.resume_at) if page.resume_at else ""),
    )


def _blob(stored: StoredObject) -> str:
    properties = [
        element("Creation-Time", http_date(stored.modified)),
        element("Last-Modified", http_date(stored.modified)),
        # A listing gives the tag without the quotes that the header has.
        element("Etag", stored.version_etag),
        element("Content-Length", len(stored.body)),
        element("Content-Type", stored.content_type),
        element("BlobType", "BlockBlob"),
    ]
    name = element("Name", stored.key)
    return f"<Blob>{name}<Properties>{''.join(properties)}</Properties></Blob>"
