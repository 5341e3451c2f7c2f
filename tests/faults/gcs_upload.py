"""The three ways to upload in GCS's JSON API: bare media, multipart/related, and resumable."""

import re
from collections.abc import Mapping

import msgspec

from tests.faults.dialect import not_implemented
from tests.faults.http import Request
from tests.faults.objects import Condition
from tests.faults.operation import BeginUpload, CompleteUpload, Operation, Put, PutPart
from tests.faults.result import Refusal, Refused


class Resource(msgspec.Struct, rename="camel"):
    """What a client may say of an object that it uploads; other fields are ignored."""

    name: str | None = None
    content_type: str | None = None
    metadata: Mapping[str, str] = {}


def read_upload(request: Request, bucket: str, condition: Condition) -> Operation:
    match request.method, request.query.get("uploadType"):
        case "POST", "media":
            resource = Resource(content_type=request.headers.get("content-type"))
            return _put(request, bucket, resource, request.body, condition)
        case "POST", "multipart":
            resource, body = _split_related(request)
            return _put(request, bucket, resource, body, condition)
        case "POST", "resumable":
            resource = _resource(request.body)
            return BeginUpload(
                bucket=bucket,
                key=_name(request, resource),
                content_type=resource.content_type
                or request.headers.get("x-upload-content-type", "application/octet-stream"),
                metadata=resource.metadata,
                condition=condition,
            )
        case "PUT", "resumable":
            return _read_chunk(request, bucket)
    raise not_implemented(request)


def _put(
    request: Request, bucket: str, resource: Resource, body: bytes, condition: Condition
) -> Put:
    return Put(
        bucket=bucket,
        key=_name(request, resource),
        body=body,
        content_type=resource.content_type or "application/octet-stream",
        metadata=resource.metadata,
        condition=condition,
    )


def _read_chunk(request: Request, bucket: str) -> Operation:
    """A chunk of a resumable upload; the one that reaches the total completes it."""
    header = request.headers.get("content-range", "")
    match = re.fullmatch(r"bytes (\d+)-(\d+)/(\d+|\*)", header)
    if match is None:
        raise Refused(Refusal.NOT_IMPLEMENTED, f"resumable upload with range {header!r}")
    first, last, total = match.groups()
    key, upload_id = request.query["name"], request.query["upload_id"]
    if total != "*" and int(last) + 1 == int(total):
        return CompleteUpload(bucket=bucket, key=key, upload_id=upload_id, body=request.body)
    # Parts are put together by name, so that the name is the offset in a fixed width.
    part = f"{int(first):020d}"
    return PutPart(bucket=bucket, key=key, upload_id=upload_id, part=part, body=request.body)


def _split_related(request: Request) -> tuple[Resource, bytes]:
    """The two parts of a multipart/related body: the resource in JSON and the media."""
    content_type = request.headers.get("content-type", "")
    match = re.search(r'boundary="?([^";]+)"?', content_type)
    if match is None:
        raise Refused(Refusal.MALFORMED, f"no boundary in {content_type!r}")
    boundary = b"--" + match[1].encode()
    try:
        _, resource, rest = request.body.split(boundary + b"\r\n", 2)
        # The media may contain anything, its own boundary-like bytes included: cut at the last.
        media = rest[: rest.rindex(b"\r\n" + boundary + b"--")]
        head, _, body = media.partition(b"\r\n\r\n")
    except ValueError:
        raise Refused(Refusal.MALFORMED, "not two parts") from None
    described = _resource(resource.partition(b"\r\n\r\n")[2])
    sent_as = re.search(rb"(?i)content-type:\s*([^\r\n]+)", head)
    if described.content_type is None and sent_as is not None:
        described.content_type = sent_as[1].decode()
    return described, body


def _resource(body: bytes) -> Resource:
    try:
        return msgspec.json.decode(body.strip() or b"{}", type=Resource)
    except msgspec.MsgspecError as error:
        raise Refused(Refusal.MALFORMED, f"resource: {error}") from None


def _name(request: Request, resource: Resource) -> str:
    name = resource.name or request.query.get("name")
    if not name:
        raise Refused(Refusal.MALFORMED, "an upload without a name")
    return name
