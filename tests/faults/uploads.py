"""Multi-part uploads that are under way: parts that are stored but not yet an object."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.faults.objects import ALWAYS, Condition
from tests.faults.operation import BeginUpload, CompleteUpload, PutPart


@dataclass(slots=True)
class _Open:
    content_type: str = "application/octet-stream"
    metadata: Mapping[str, str] = field(default_factory=dict)
    condition: Condition = ALWAYS
    parts: dict[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Assembled:
    """What an upload amounts to once its parts are put together."""

    body: bytes = field(repr=False)
    content_type: str
    metadata: Mapping[str, str]
    condition: Condition


class Uploads:
    """The open uploads of all buckets.

    An upload whose id is empty needs no opening: it is Azure's set of uncommitted blocks, of
    which each name has one.
    """

    def __init__(self) -> None:
        self._ids = itertools.count(1)
        self._open: dict[tuple[str, str, str], _Open] = {}

    def begin(self, operation: BeginUpload) -> str:
        upload_id = f"upload-{next(self._ids)}"
        self._open[operation.bucket, operation.key, upload_id] = _Open(
            operation.content_type, operation.metadata, operation.condition
        )
        return upload_id

    def put_part(self, operation: PutPart) -> int | None:
        """Store a part and return the bytes stored so far, or None if there is no such upload."""
        name = (operation.bucket, operation.key, operation.upload_id)
        if operation.upload_id == "":
            self._open.setdefault(name, _Open())
        upload = self._open.get(name)
        if upload is None:
            return None
        upload.parts[operation.part] = operation.body
        return sum(len(body) for body in upload.parts.values())

    def assemble(self, operation: CompleteUpload) -> Assembled | None:
        """The finished object, or None if the upload or one of its parts is not there."""
        upload = self._open.get((operation.bucket, operation.key, operation.upload_id))
        if upload is None:
            return None
        names = sorted(upload.parts) if operation.parts is None else operation.parts
        if any(name not in upload.parts for name in names):
            return None
        body = b"".join([*(upload.parts[name] for name in names), operation.body])
        condition = upload.condition
        if operation.condition != ALWAYS:
            condition = operation.condition
        return Assembled(body, upload.content_type, upload.metadata, condition)

    def forget(self, bucket: str, key: str, upload_id: str) -> bool:
        return self._open.pop((bucket, key, upload_id), None) is not None
