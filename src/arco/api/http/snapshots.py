"""The snapshots that requests read, the page tokens that pin them, and the replies cached for them.

A request must see what was published before it arrived, so it may share a read of the head only if that
read began after it. While one read is under way, all later requests wait for the next one together; and of
requests that arrive together, the first reads for all. Under load one read serves many requests, and a
single request has its own.
"""

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Coroutine
from typing import Annotated, Any, Generic, TypeVar, cast

import msgspec
from msgspec import Meta

from arco.api.http.reply import Reply
from arco.catalog.reader import SnapshotReader
from arco.catalog.snapshot import Snapshot
from arco.catalog.unresolved_names import UnresolvedIds, UnresolvedNames
from arco.core import json
from arco.core.errors import Invalid, NotFound
from arco.core.lru_cache import LruCache
from arco.core.runtime import Runtime
from arco.core.tasks import Task

T = TypeVar("T")

MALFORMED = "page_token is not one that this server gave"

_SEPARATOR = "\x1f"  # is in no name
_MAX_SHARE = 256  # no reply takes more than this part of the cache
_OVERHEAD_BYTES = 1_000  # of the Python objects of one entry

_Key = tuple[str, bytes, bytes]  # manifest hash and number of unresolved names, path, query


class PageCursor(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A decoded page token: the manifest that a list is read from, and the last key of the page (P29).

    Once that manifest was collected, the list goes on after the key in the newest one.
    """

    number: Annotated[int, Meta(ge=0, le=2**53)]
    key: Annotated[str, Meta(max_length=16_384)]

    def encode(self) -> str:
        """The opaque token that clients get."""
        return urlsafe_b64encode(json.encode(self)).rstrip(b"=").decode()

    @property
    def key_number(self) -> int:
        """The key of a list that is ordered by numbers, or `Invalid`."""
        if not self.key.isascii() or not self.key.isdigit() or len(self.key) > 18:
            raise Invalid(MALFORMED)
        return int(self.key)


def decode_page_token(text: str) -> PageCursor:
    """The cursor of a token, or `Invalid`."""
    try:
        raw = text.encode("ascii")
        data = urlsafe_b64decode(raw + b"=" * (-len(raw) % 4))
        cursor = json.decode(data, PageCursor)
    except (ValueError, binascii.Error, Invalid) as problem:
        raise Invalid(MALFORMED) from problem
    if cursor.encode() != text:
        raise Invalid(MALFORMED)
    return cursor


def next_token(snapshot: Snapshot, key: str | int | None) -> str | None:
    """The token of the page after `key` of a list that is read from `snapshot`; None after the last."""
    return None if key is None else PageCursor(snapshot.number, str(key)).encode()


def name_key(name: str, object_id: str, *, dropped: bool) -> str:
    """The key of an object in a list by name; dropped objects may share a name, so theirs has the id."""
    return f"{name}{_SEPARATOR}{object_id}" if dropped else name


def split_name_key(cursor: PageCursor | None) -> tuple[str | None, str | None]:
    """The name, and the id if there is one, after which a list by name goes on."""
    if cursor is None:
        return None, None
    name, _, object_id = cursor.key.partition(_SEPARATOR)
    return name, object_id or None


def take_page(items: list[T], size: int, key: Callable[[T], str]) -> tuple[list[T], str | None]:
    """The first `size` of up to `size + 1` items, and the key of the last if there are more."""
    if len(items) <= size:
        return items, None
    return items[:size], key(items[size - 1])


class SharedRead(Generic[T]):
    """One read of something for many concurrent requests."""

    def __init__(self, read: Callable[[], Coroutine[Any, Any, T]], runtime: Runtime) -> None:
        self._read_once = read
        self._tasks = runtime.tasks
        self._clock = runtime.clock
        self._is_reading = False
        self._read_ended = runtime.tasks.event()
        self._next: Task[T] | None = None
        self._last: tuple[float, T] | None = None  # when the last read began, and its result

    def since(self, since_ms: float) -> T | None:
        """The result of the last read, if it began after `since_ms`."""
        return None if self._last is None or self._last[0] <= since_ms else self._last[1]

    async def read(self) -> T:
        """The result of a read that begins after this call."""
        if self._next is not None:
            return await self._next.wait()
        if not self._is_reading:
            return await self._read()
        self._next = self._tasks.spawn(self._read_next())
        return await self._next.wait()

    async def _read(self) -> T:
        self._is_reading = True
        self._read_ended.clear()
        began_ms = self._clock.elapsed_ms()
        try:
            result = await self._read_once()
            self._last = began_ms, result
            return result
        finally:
            self._is_reading = False
            self._read_ended.set()

    async def _read_next(self) -> T:
        """The read for requests that came too late for the one under way; no other can begin before."""
        await self._read_ended.wait()
        self._next = None
        return await self._read()


class SnapshotReads:
    """Snapshots for requests, and which tables in them have unresolved names."""

    def __init__(self, reader: SnapshotReader, unresolved: UnresolvedNames | None = None) -> None:
        runtime = reader.store.runtime
        self._reader = reader
        self._tasks = runtime.tasks
        # Late bound: tests replace `reader.head`.
        self._heads = SharedRead(lambda: reader.head(), runtime)  # noqa: PLW0108
        self._unresolved = None if unresolved is None else SharedRead(unresolved.read_ids, runtime)

    async def head(self) -> Snapshot:
        """The newest snapshot, by a read that begins after this call."""
        return await self._heads.read()

    async def head_with_unresolved(self) -> tuple[Snapshot, UnresolvedIds]:
        """The newest snapshot, and the tables whose names are unresolved (P31)."""
        if self._unresolved is None:
            return await self.head(), UnresolvedIds()
        both: list[Snapshot | UnresolvedIds] = await self._tasks.gather(
            cast("Coroutine[Any, Any, Snapshot | UnresolvedIds]", self._heads.read()),
            cast("Coroutine[Any, Any, Snapshot | UnresolvedIds]", self._unresolved.read()),
        )
        return cast("Snapshot", both[0]), cast("UnresolvedIds", both[1])

    def state_since(self, since_ms: float, *, with_unresolved: bool) -> str | None:
        """The key of the state that replies depend on, if it was read since then for another request."""
        head = self._heads.since(since_ms)
        if head is None or not with_unresolved:
            return None if head is None else head.sha256
        if self._unresolved is None:
            return state_key(head, UnresolvedIds())
        unresolved = self._unresolved.since(since_ms)
        return None if unresolved is None else state_key(head, unresolved)

    def is_newest(self, head: Snapshot) -> bool:
        """Whether no newer snapshot was read since: a handler may have read the head itself."""
        newest = self._reader.remembered()
        return newest is not None and newest.sha256 == head.sha256

    async def at(self, as_of: str | None, head: Snapshot | None = None) -> Snapshot:
        """The snapshot at a point; the newest is `head`, if that was read already."""
        if as_of is not None:
            return await self._reader.at(as_of)
        return head or await self.head()

    async def pinned(
        self, page_token: str | None, as_of: str | None, head: Snapshot | None = None
    ) -> tuple[Snapshot, PageCursor | None]:
        """The snapshot that a list is read from, and the cursor of its page (P29)."""
        if page_token is None:
            return await self.at(as_of, head), None
        cursor = decode_page_token(page_token)
        if head is not None and head.number == cursor.number:
            return head, cursor
        try:
            return await self._reader.at_number(cursor.number), cursor
        except NotFound:
            return await self.at(as_of, head), cursor


def state_key(head: Snapshot, unresolved: UnresolvedIds) -> str:
    """The key of a state with unresolved names; without them it is the manifest's hash."""
    return f"{head.sha256}-{unresolved.number}"


class ReplyCache:
    """Replies by the manifest and the URL that they depend on, least recently used evicted first.

    Principals share the replies: authorization comes before. A reply with tables depends on the unresolved
    names too; if one of them had to be resolved for it, it depends on more than its key and is not cached.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._replies = LruCache[_Key, tuple[Reply, int]](max_bytes, lambda each: each[1])

    def get(self, key: _Key) -> Reply | None:
        """The cached reply, if there is one."""
        cached = self._replies.get(key)
        return None if cached is None else cached[0]

    def put(self, key: _Key, reply: Reply) -> None:
        """Cache a reply, unless it is large or an error."""
        size = sum(map(len, key)) + len(reply.body) + _OVERHEAD_BYTES
        if reply.status == 200 and size <= self._max_bytes // _MAX_SHARE:
            self._replies.put(key, (reply, size))
