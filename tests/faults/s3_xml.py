"""The XML documents of S3, which GCS's XML API shares."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from urllib.parse import quote
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape

from tests.faults.dialect import page_token
from tests.faults.objects import Page, StoredObject
from tests.faults.operation import List
from tests.faults.result import Refusal, Refused

_NAMESPACE = "http://s3.amazonaws.com/doc/2006-03-01/"


def document(root: str, *children: str) -> bytes:
    text = "".join(children)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<{root}>{text}</{root}>'.encode()


def element(name: str, text: str | int) -> str:
    return f"<{name}>{escape(str(text))}</{name}>"


def parse(body: bytes) -> ET.Element:
    try:
        return ET.fromstring(body)
    except ET.ParseError as error:
        raise Refused(Refusal.MALFORMED, f"XML body: {error}") from None


def texts(root: ET.Element, name: str) -> tuple[str, ...]:
    """The text of every element of this name, in whatever namespace."""
    return tuple(node.text or "" for node in root.iter() if node.tag.split("}")[-1] == name)


def listing(operation: List, page: Page, query: Mapping[str, str]) -> bytes:
    """A ListObjectsV2 answer; names are percent-encoded where the client asked for that."""
    encoded = query.get("encoding-type") == "url"
    name: Callable[[str], str] = quote if encoded else str
    children = [
        element("Name", operation.bucket),
        element("Prefix", name(operation.prefix)),
        element("KeyCount", len(page.objects) + len(page.common_prefixes)),
        element("MaxKeys", operation.limit),
        element("IsTruncated", "false" if page.resume_at is None else "true"),
    ]
    if encoded:
        children.append(element("EncodingType", "url"))
    if operation.delimiter:
        children.append(element("Delimiter", name(operation.delimiter)))
    if page.resume_at is not None:
        children.append(element("NextContinuationToken", page_token(page.resume_at)))
    children += [_contents(stored, name) for stored in page.objects]
    children += [
        f"<CommonPrefixes>{element('Prefix', name(prefix))}</CommonPrefixes>"
        for prefix in page.common_prefixes
    ]
    return document("ListBucketResult", *children).replace(
        b"<ListBucketResult>", f'<ListBucketResult xmlns="{_NAMESPACE}">'.encode()
    )


def _contents(stored: StoredObject, name: Callable[[str], str]) -> str:
    fields = [
        element("Key", name(stored.key)),
        element("LastModified", iso_time(stored.modified)),
        element("ETag", f'"{stored.etag}"'),
        element("Size", len(stored.body)),
        element("StorageClass", "STANDARD"),
    ]
    return f"<Contents>{''.join(fields)}</Contents>"


def iso_time(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
