"""Google Cloud Storage's XML API: S3's protocol, with generations for conditions."""

import base64
from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from tests.faults.http import Request
from tests.faults.objects import Condition, StoredObject
from tests.faults.result import Refusal, Refused
from tests.faults.s3 import S3


class GcsXml(S3):
    metadata_prefix: ClassVar[str] = "x-goog-meta-"
    copy_header: ClassVar[str] = "x-goog-copy-source"
    deleting_nothing_is_an_error: ClassVar[bool] = True
    errors: ClassVar[Mapping[Refusal, tuple[int, str]]] = {
        **S3.errors,
        Refusal.NOTHING_TO_UPDATE: (412, "PreconditionFailed"),
        Refusal.CONFLICT: (409, "OperationAborted"),
        # GCS says SlowDown where the rate of changes to one name is exceeded, with a 429.
        Refusal.THROTTLED: (429, "SlowDown"),
    }

    def write_condition(self, request: Request) -> Condition:
        return _with_generation(super().write_condition(request), request)

    def read_condition(self, request: Request) -> Condition:
        return _with_generation(super().read_condition(request), request)

    def written_headers(self, stored: StoredObject) -> dict[str, str]:
        return {**super().written_headers(stored), **_version_headers(stored)}

    def object_headers(self, stored: StoredObject) -> dict[str, str]:
        return {**super().object_headers(stored), **_version_headers(stored)}


def _version_headers(stored: StoredObject) -> dict[str, str]:
    return {
        "x-goog-generation": str(stored.generation),
        "x-goog-metageneration": "1",
        "x-goog-hash": f"md5={base64.b64encode(stored.md5).decode()}",
        "x-goog-stored-content-length": str(len(stored.body)),
    }


def _with_generation(condition: Condition, request: Request) -> Condition:
    header = request.headers.get("x-goog-if-generation-match")
    if header is None:
        return condition
    if not header.isdecimal():
        raise Refused(Refusal.MALFORMED, f"generation {header}")
    if header == "0":
        return replace(condition, if_absent=True)
    return replace(condition, if_generation=int(header))
