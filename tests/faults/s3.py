"""S3 with path-style addresses: ``/{bucket}/{key}``. Signatures are not looked at."""

import re
from collections.abc import Mapping
from typing import ClassVar

from tests.faults import s3_xml
from tests.faults.dialect import (
    content_range,
    not_implemented,
    read_condition,
    read_cursor,
    read_range,
    unexpected,
    write_condition,
)
from tests.faults.http import Request, Response, http_date
from tests.faults.objects import Condition, Page, StoredObject, just_after
from tests.faults.operation import (
    AbortUpload,
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
from tests.faults.result import Deleted, Done, Fetched, Refusal, Success, Upload

XML = {"Content-Type": "application/xml"}

# Query parameters that leave an object request what it is: uploads, signatures, a client's label.
_KNOWN_PARAMETER = re.compile(r"uploads|uploadId|partNumber|x-id|X-(Amz|Goog)-.*")


class S3:
    """Amazon's dialect; GCS's XML API is this one with other header names."""

    metadata_prefix: ClassVar[str] = "x-amz-meta-"
    copy_header: ClassVar[str] = "x-amz-copy-source"
    deleting_nothing_is_an_error: ClassVar[bool] = False
    errors: ClassVar[Mapping[Refusal, tuple[int, str]]] = {
        Refusal.NOT_FOUND: (404, "NoSuchKey"),
        Refusal.NO_SUCH_UPLOAD: (404, "NoSuchUpload"),
        Refusal.ALREADY_EXISTS: (412, "PreconditionFailed"),
        Refusal.NOTHING_TO_UPDATE: (404, "NoSuchKey"),
        Refusal.PRECONDITION_FAILED: (412, "PreconditionFailed"),
        Refusal.NOT_MODIFIED: (304, "NotModified"),
        Refusal.RANGE_NOT_SATISFIABLE: (416, "InvalidRange"),
        Refusal.CONFLICT: (409, "ConditionalRequestConflict"),
        Refusal.THROTTLED: (429, "TooManyRequests"),
        Refusal.SLOW_DOWN: (503, "SlowDown"),
        Refusal.UNAVAILABLE: (503, "ServiceUnavailable"),
        Refusal.INTERNAL: (500, "InternalError"),
        Refusal.MALFORMED: (400, "InvalidRequest"),
        Refusal.NOT_IMPLEMENTED: (501, "NotImplemented"),
    }

    def read(self, request: Request) -> Operation:
        bucket, key = request.segments(2)
        if not key:
            return self._read_bucket(request, bucket)
        if not all(_KNOWN_PARAMETER.fullmatch(name) for name in request.query):
            raise not_implemented(request)
        if "uploads" in request.query or "uploadId" in request.query:
            return self._read_upload(request, bucket, key)
        match request.method:
            case "PUT" if self.copy_header not in request.headers:
                return Put(
                    bucket=bucket,
                    key=key,
                    body=payload(request),
                    content_type=request.headers.get("content-type", "binary/octet-stream"),
                    metadata=self._metadata(request),
                    condition=self.write_condition(request),
                )
            case "GET":
                return Get(
                    bucket=bucket,
                    key=key,
                    span=read_range(request),
                    condition=self.read_condition(request),
                )
            case "HEAD":
                return Head(bucket=bucket, key=key, condition=self.read_condition(request))
            case "DELETE":
                return Delete(bucket=bucket, keys=(key,), condition=self.write_condition(request))
        raise not_implemented(request)

    def answer(self, request: Request, operation: Operation, result: Success) -> Response:
        match operation, result:
            case Put(), StoredObject():
                return Response(200, self.written_headers(result))
            case Get(), Fetched():
                return self._fetched(result)
            case Head(), Fetched():
                headers = self.object_headers(result.stored)
                return Response(200, headers, described_bytes=len(result.stored.body))
            case Delete(batch=True), Deleted():
                deleted = [
                    f"<Deleted>{s3_xml.element('Key', key)}</Deleted>" for key in operation.keys
                ]
                return Response(200, XML, s3_xml.document("DeleteResult", *deleted))
            case Delete(), Deleted():
                if self.deleting_nothing_is_an_error and result.missing:
                    return self.refuse(Refusal.NOT_FOUND, "/".join(operation.keys))
                return Response(204)
            case List(), Page():
                return Response(200, XML, s3_xml.listing(operation, result, request.query))
            case OpenBucket(), Done():
                return Response(200)
        return self._answer_upload(operation, result)

    def refuse(self, refusal: Refusal, detail: str) -> Response:
        status, code = self.errors[refusal]
        if refusal is Refusal.NOT_MODIFIED:
            return Response(status)
        fields = s3_xml.element("Code", code), s3_xml.element("Message", f"{code}: {detail}")
        return Response(status, XML, s3_xml.document("Error", *fields))

    def write_condition(self, request: Request) -> Condition:
        return write_condition(request)

    def read_condition(self, request: Request) -> Condition:
        return read_condition(request)

    def written_headers(self, stored: StoredObject) -> dict[str, str]:
        return {"ETag": f'"{stored.etag}"'}

    def object_headers(self, stored: StoredObject) -> dict[str, str]:
        return {
            "ETag": f'"{stored.etag}"',
            "Last-Modified": http_date(stored.modified),
            "Content-Type": stored.content_type,
            "Accept-Ranges": "bytes",
            **{self.metadata_prefix + name: value for name, value in stored.metadata.items()},
        }

    def _fetched(self, fetched: Fetched) -> Response:
        headers = self.object_headers(fetched.stored)
        if fetched.span is None:
            return Response(200, headers, fetched.body)
        headers["Content-Range"] = content_range(fetched.span, len(fetched.stored.body))
        return Response(206, headers, fetched.body)

    def _metadata(self, request: Request) -> dict[str, str]:
        return {
            name.removeprefix(self.metadata_prefix): value
            for name, value in request.headers.items()
            if name.startswith(self.metadata_prefix)
        }

    def _read_bucket(self, request: Request, bucket: str) -> Operation:
        query = request.query
        match request.method:
            case "GET" if query.get("list-type") == "2":
                start = just_after(query["start-after"]) if query.get("start-after") else ""
                if "continuation-token" in query:
                    start = read_cursor(query["continuation-token"])
                return List(
                    bucket=bucket,
                    prefix=query.get("prefix", ""),
                    start=start,
                    delimiter=query.get("delimiter", ""),
                    limit=min(int(query.get("max-keys", "1000")), 1000),
                )
            case "POST" if "delete" in query:
                keys = s3_xml.texts(s3_xml.parse(payload(request)), "Key")
                return Delete(bucket=bucket, keys=keys, batch=True)
            case "PUT" | "HEAD" if not query:
                return OpenBucket(bucket=bucket)
        raise not_implemented(request)

    def _read_upload(self, request: Request, bucket: str, key: str) -> Operation:
        upload_id = request.query.get("uploadId", "")
        match request.method:
            case "POST" if "uploads" in request.query:
                content_type = request.headers.get("content-type", "binary/octet-stream")
                metadata = self._metadata(request)
                return BeginUpload(
                    bucket=bucket, key=key, content_type=content_type, metadata=metadata
                )
            case "PUT" if self.copy_header not in request.headers:
                part = request.query["partNumber"]
                body = payload(request)
                return PutPart(bucket=bucket, key=key, upload_id=upload_id, part=part, body=body)
            case "POST":
                return CompleteUpload(
                    bucket=bucket,
                    key=key,
                    upload_id=upload_id,
                    parts=s3_xml.texts(s3_xml.parse(payload(request)), "PartNumber"),
                    condition=self.write_condition(request),
                )
            case "DELETE":
                return AbortUpload(bucket=bucket, key=key, upload_id=upload_id)
        raise not_implemented(request)

    def _answer_upload(self, operation: Operation, result: Success) -> Response:
        match operation, result:
            case BeginUpload(), Upload():
                fields = [
                    s3_xml.element("Bucket", operation.bucket),
                    s3_xml.element("Key", operation.key),
                    s3_xml.element("UploadId", result.upload_id),
                ]
                body = s3_xml.document("InitiateMultipartUploadResult", *fields)
                return Response(200, XML, body)
            case PutPart(), Upload():
                return Response(200, {"ETag": f'"{result.part_etag}"'})
            case CompleteUpload(), StoredObject():
                fields = [
                    s3_xml.element("Bucket", operation.bucket),
                    s3_xml.element("Key", operation.key),
                    s3_xml.element("ETag", f'"{result.etag}"'),
                ]
                body = s3_xml.document("CompleteMultipartUploadResult", *fields)
                return Response(200, {**XML, **self.written_headers(result)}, body)
            case AbortUpload(), Done():
                return Response(204)
        raise unexpected(operation, result)


def payload(request: Request) -> bytes:
    """The body without the framing that signed streaming puts around it."""
    if not request.headers.get("x-amz-content-sha256", "").startswith("STREAMING-"):
        return request.body
    chunks: list[bytes] = []
    at = 0
    while True:
        line_end = request.body.index(b"\r\n", at)
        size = int(request.body[at:line_end].split(b";")[0], 16)
        if size == 0:
            return b"".join(chunks)
        chunks.append(request.body[line_end + 2 : line_end + 2 + size])
        at = line_end + 2 + size + 2
