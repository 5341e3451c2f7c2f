"""The store behind the dialects: applies operations to the buckets, one at a time."""

import time
from collections import defaultdict
from collections.abc import Callable

from tests.faults.objects import ALWAYS, Bucket, Condition, StoredObject
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
from tests.faults.result import Deleted, Done, Fetched, Refusal, Result, Upload
from tests.faults.script import Modes
from tests.faults.uploads import Uploads


class Backend:
    """Buckets that exist on first use. Operations are applied from one thread only."""

    def __init__(self, modes: Modes, now_s: Callable[[], float] = time.monotonic) -> None:
        self.modes = modes
        self._now_s = now_s
        self._buckets: defaultdict[str, Bucket] = defaultdict(Bucket)
        self._uploads = Uploads()
        self._changed_at: dict[tuple[str, str], float] = {}

    def snapshot(self, bucket: str) -> dict[str, StoredObject]:
        """Every object of a bucket by name. May be called from any thread."""
        return self._buckets[bucket].snapshot()

    def apply(self, operation: Operation) -> Result:
        match operation:
            case Put():
                return self._put(operation)
            case Get() | Head():
                return self._read(operation)
            case Delete():
                return self._delete(operation)
            case List():
                limit = min(operation.limit, self.modes.page_limit)
                return self._buckets[operation.bucket].page(
                    operation.prefix, operation.start, operation.delimiter, limit
                )
            case CompleteUpload():
                return self._complete(operation)
            case BeginUpload() | PutPart() | AbortUpload():
                return self._upload(operation)
            case OpenBucket():
                return Done()

    def _put(self, put: Put) -> StoredObject | Refusal:
        bucket = self._buckets[put.bucket]
        condition = self._heeded(put.condition)
        if not bucket.holds(put.key, condition):
            if bucket.get(put.key) is None:
                return Refusal.NOTHING_TO_UPDATE
            return Refusal.ALREADY_EXISTS if condition.if_absent else Refusal.PRECONDITION_FAILED
        if not self._may_change(put.bucket, put.key):
            return Refusal.THROTTLED
        stored = bucket.put(put.key, put.body, put.content_type, put.metadata, condition)
        return Refusal.PRECONDITION_FAILED if stored is None else stored

    def _read(self, read: Get | Head) -> Fetched | Refusal:
        stored = self._buckets[read.bucket].get(read.key)
        if stored is None:
            return Refusal.NOT_FOUND
        if not stored.satisfies(read.condition):
            unchanged = read.condition.unless_etag is not None
            return Refusal.NOT_MODIFIED if unchanged else Refusal.PRECONDITION_FAILED
        if isinstance(read, Head) or read.span is None:
            return Fetched(stored, None)
        span = read.span.within(len(stored.body))
        return Refusal.RANGE_NOT_SATISFIABLE if span is None else Fetched(stored, span)

    def _delete(self, delete: Delete) -> Deleted | Refusal:
        bucket = self._buckets[delete.bucket]
        missing = frozenset(key for key in delete.keys if bucket.get(key) is None)
        present = [key for key in delete.keys if key not in missing]
        condition = self._heeded(delete.condition)
        if not all(bucket.holds(key, condition) for key in present):
            return Refusal.PRECONDITION_FAILED
        if not all(self._may_change(delete.bucket, key) for key in present):
            return Refusal.THROTTLED
        for key in present:
            bucket.delete(key)
        return Deleted(missing)

    def _upload(self, step: BeginUpload | PutPart | AbortUpload) -> Upload | Done | Refusal:
        match step:
            case BeginUpload():
                return Upload(self._uploads.begin(step))
            case PutPart():
                stored = self._uploads.put_part(step)
                if stored is None:
                    return Refusal.NO_SUCH_UPLOAD
                return Upload(step.upload_id, f"part-{step.part}", stored)
            case AbortUpload():
                forgotten = self._uploads.forget(step.bucket, step.key, step.upload_id)
                return Done() if forgotten else Refusal.NO_SUCH_UPLOAD

    def _complete(self, complete: CompleteUpload) -> Result:
        made = self._uploads.assemble(complete)
        if made is None:
            return Refusal.NO_SUCH_UPLOAD
        result = self._put(
            Put(
                bucket=complete.bucket,
                key=complete.key,
                body=made.body,
                content_type=made.content_type,
                metadata=made.metadata,
                condition=made.condition,
            )
        )
        if isinstance(result, StoredObject):
            self._uploads.forget(complete.bucket, complete.key, complete.upload_id)
        return result

    def _heeded(self, condition: Condition) -> Condition:
        return ALWAYS if self.modes.ignore_conditions else condition

    def _may_change(self, bucket: str, key: str) -> bool:
        """Whether the name may be changed now; if so, this counts as the change.

        GCS names create, update and delete in its refusal, so that a delete counts too. What
        fails its precondition never comes here and does not count.
        """
        rate = self.modes.writes_per_second_per_name
        if rate is None:
            return True
        now_s = self._now_s()
        if now_s - self._changed_at.get((bucket, key), float("-inf")) < 1 / rate:
            return False
        self._changed_at[bucket, key] = now_s
        return True
