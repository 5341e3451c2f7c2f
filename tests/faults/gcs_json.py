"""Google Cloud Storage's JSON API: ``/storage/v1/b/{bucket}/o/{object}``."""

import base64
import json
import re
from collections.abc import Mapping
from typing import ClassVar
from urllib.parse import quote, unquote, urlencode

import google_crc32c

from tests.faults.dialect import (
    content_range,
    not_implemented,
    page_token,
    read_cursor,
    read_range,
    unexpected,
)
from tests.faults.gcs_upload import read_upload
from tests.faults.http import Request, Response, http_date
from tests.faults.objects import ALWAYS, Condition, Page, StoredObject
from tests.faults.operation import (
    BeginUpload,
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
from tests.faults.result import Deleted, Done, Fetched, Refusal, Refused, Success, Upload
from tests.faults.s3_xml import iso_time

_PATH = re.compile(r"/(?P<door>upload/|download/)?storage/v1/b/(?P<bucket>[^/]+)(?P<rest>/o.*)?")
# Parameters of a listing that would change what it lists, and that are not kept here.
_UNSUPPORTED = {"endOffset", "matchGlob", "versions", "softDeleted", "includeTrailingDelimiter"}


def is_json_api(path: str) -> bool:
    return _PATH.match(path) is not None


class GcsJson:
    errors: ClassVar[Mapping[Refusal, tuple[int, str]]] = {
        Refusal.NOT_FOUND: (404, "notFound"),
        Refusal.NO_SUCH_UPLOAD: (404, "notFound"),
        Refusal.ALREADY_EXISTS: (412, "conditionNotMet"),
        Refusal.NOTHING_TO_UPDATE: (412, "conditionNotMet"),
        Refusal.PRECONDITION_FAILED: (412, "conditionNotMet"),
        Refusal.NOT_MODIFIED: (304, "notModified"),
        Refusal.RANGE_NOT_SATISFIABLE: (416, "requestedRangeNotSatisfiable"),
        Refusal.CONFLICT: (409, "conflict"),
        Refusal.THROTTLED: (429, "rateLimitExceeded"),
        Refusal.SLOW_DOWN: (503, "backendError"),
        Refusal.UNAVAILABLE: (503, "backendError"),
        Refusal.INTERNAL: (500, "internalError"),
        Refusal.MALFORMED: (400, "invalid"),
        Refusal.NOT_IMPLEMENTED: (501, "notImplemented"),
    }

    def read(self, request: Request) -> Operation:
        match = _PATH.fullmatch(request.path)
        if match is None:
            raise not_implemented(request)
        bucket, rest = unquote(match["bucket"]), match["rest"] or ""
        if match["door"] == "upload/":
            return read_upload(request, bucket, _condition(request))
        if rest.startswith("/o/"):
            return self._read_object(request, bucket, unquote(rest.removeprefix("/o/")))
        if rest == "/o" and request.method == "GET":
            return self._read_listing(request, bucket)
        if rest == "" and request.method == "GET":
            return OpenBucket(bucket=bucket)
        raise not_implemented(request)

    def answer(self, request: Request, operation: Operation, result: Success) -> Response:
        match operation, result:
            case Put() | CompleteUpload(), StoredObject():
                return _json(200, describe(operation.bucket, result))
            case BeginUpload(), Upload():
                return Response(200, {"Location": _session_url(request, operation, result)})
            case PutPart(), Upload():
                return Response(308, {"Range": f"bytes=0-{result.stored_bytes - 1}"})
            case Head(), Fetched():
                return _json(200, describe(operation.bucket, result.stored))
            case Get(), Fetched():
                return _media(result)
            case Delete(), Deleted():
                if result.missing:
                    return self.refuse(Refusal.NOT_FOUND, "/".join(operation.keys))
                return Response(204)
            case List(), Page():
                return _json(200, _listing(operation, result))
            case OpenBucket(), Done():
                return _json(200, {"kind": "storage#bucket", "name": operation.bucket})
        raise unexpected(operation, result)

    def refuse(self, refusal: Refusal, detail: str) -> Response:
        status, reason = self.errors[refusal]
        if refusal is Refusal.NOT_MODIFIED:
            return Response(status)
        message = f"{reason}: {detail}"
        errors = [{"message": message, "domain": "global", "reason": reason}]
        return _json(status, {"error": {"code": status, "message": message, "errors": errors}})

    def _read_object(self, request: Request, bucket: str, key: str) -> Operation:
        if "generation" in request.query:
            raise not_implemented(request)
        condition = _condition(request)
        match request.method:
            case "GET" if request.query.get("alt") == "media":
                return Get(bucket=bucket, key=key, span=read_range(request), condition=condition)
            case "GET":
                return Head(bucket=bucket, key=key, condition=condition)
            case "DELETE":
                return Delete(bucket=bucket, keys=(key,), condition=condition)
        raise not_implemented(request)

    def _read_listing(self, request: Request, bucket: str) -> List:
        query = request.query
        if _UNSUPPORTED & query.keys():
            raise not_implemented(request)
        start = query.get("startOffset", "")
        if "pageToken" in query:
            start = read_cursor(query["pageToken"])
        return List(
            bucket=bucket,
            prefix=query.get("prefix", ""),
            start=start,
            delimiter=query.get("delimiter", ""),
            limit=min(int(query.get("maxResults", "1000")), 1000),
        )


def describe(bucket: str, stored: StoredObject) -> dict[str, object]:
    """The resource of an object. Numbers that may exceed 2^53 are strings, as GCS sends them."""
    return {
        "kind": "storage#object",
        "id": f"{bucket}/{stored.key}/{stored.generation}",
        "name": stored.key,
        "bucket": bucket,
        "generation": str(stored.generation),
        "metageneration": "1",
        "contentType": stored.content_type,
        "metadata": dict(stored.metadata),
        "storageClass": "STANDARD",
        "size": str(len(stored.body)),
        "md5Hash": _base64(stored.md5),
        "crc32c": _base64(_crc32c(stored)),
        "etag": _etag(stored),
        "timeCreated": iso_time(stored.modified),
        "updated": iso_time(stored.modified),
    }


def _etag(stored: StoredObject) -> str:
    return _base64(str(stored.generation).encode())


def _crc32c(stored: StoredObject) -> bytes:
    # Google's client refuses a resumable upload whose answer does not repeat this checksum.
    checksum: int = google_crc32c.value(stored.body)
    return checksum.to_bytes(4, "big")


def _base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def _condition(request: Request) -> Condition:
    generation = request.query.get("ifGenerationMatch")
    if generation is None:
        return ALWAYS
    if not generation.isdecimal():
        raise Refused(Refusal.MALFORMED, f"generation {generation}")
    if generation == "0":
        return Condition(if_absent=True)
    return Condition(if_generation=int(generation))


def _session_url(request: Request, operation: BeginUpload, upload: Upload) -> str:
    bucket = quote(operation.bucket, safe="")
    query = {"uploadType": "resumable", "name": operation.key, "upload_id": upload.upload_id}
    return f"{request.base}/upload/storage/v1/b/{bucket}/o?{urlencode(query)}"


def _media(fetched: Fetched) -> Response:
    stored = fetched.stored
    headers = {
        "ETag": _etag(stored),
        "Last-Modified": http_date(stored.modified),
        "Content-Type": stored.content_type,
        "x-goog-generation": str(stored.generation),
        "x-goog-metageneration": "1",
        "x-goog-hash": f"crc32c={_base64(_crc32c(stored))},md5={_base64(stored.md5)}",
    }
    if fetched.span is None:
        return Response(200, headers, fetched.body)
    headers["Content-Range"] = content_range(fetched.span, len(stored.body))
    return Response(206, headers, fetched.body)


def _listing(operation: List, page: Page) -> dict[str, object]:
    listed: dict[str, object] = {
        "kind": "storage#objects",
        "items": [describe(operation.bucket, stored) for stored in page.objects],
        "prefixes": list(page.common_prefixes),
    }
    if page.resume_at is not None:
        listed["nextPageToken"] = page_token(page.resume_at)
    return listed


def _json(status: int, document: dict[str, object]) -> Response:
    headers = {"Content-Type": "application/json; charset=UTF-8"}
    return Response(status, headers, json.dumps(document).encode())
