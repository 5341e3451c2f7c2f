"""The newest snapshot, asked for by many at once, and the replies that follow from it.

A request must see what was published before it came, so it may share a look at the store only if that look
began after it. While one look is under way, all who come wait for the next one together: under load one
look serves many, and alone each has its own.
"""

from collections import OrderedDict
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar, cast

from arco.api.paging import Token, unpack
from arco.api.route import Reply
from arco.catalog.reader import SnapshotReader
from arco.catalog.snapshot import Snapshot
from arco.core.errors import NotFound
from arco.core.tasks import Task, Tasks
from arco.iceberg.doubt import Doubtful, Doubts

T = TypeVar("T")

Key = tuple[str, bytes, bytes]  # a manifest's hash and what is in doubt, a path, a query

_LARGEST_SHARE = 256  # no reply takes more than this part of the room
_OVERHEAD_BYTES = 1_000  # of the objects around it
_NO_DOUBTS = Doubtful()


class Looks(Generic[T]):
    """One look at something for many who ask."""

    def __init__(self, look: Callable[[], Coroutine[Any, Any, T]], tasks: Tasks) -> None:
        self._look_once = look
        self._tasks = tasks
        self._is_looking = False
        self._looked = tasks.event()
        self._next: Task[T] | None = None

    async def take(self) -> T:
        """What a look finds that begins after this call."""
        if self._next is not None:
            return await self._next.wait()
        if not self._is_looking:
            return await self._look()
        self._next = self._tasks.spawn(self._look_again())
        return await self._next.wait()

    async def _look(self) -> T:
        self._is_looking = True
        self._looked.clear()
        try:
            return await self._look_once()
        finally:
            self._is_looking = False
            self._looked.set()

    async def _look_again(self) -> T:
        """The look for those who came too late for the one under way; nobody else can begin one."""
        await self._looked.wait()
        self._next = None
        return await self._look()


class Reads:
    """Snapshots for requests, and which names in them are in doubt."""

    def __init__(self, reader: SnapshotReader, tasks: Tasks, doubts: Doubts | None = None) -> None:
        self._reader = reader
        self._tasks = tasks
        # Late bound: a test may have put something else in the reader's place.
        self._heads = Looks(lambda: reader.head(), tasks)  # noqa: PLW0108
        self._doubts = None if doubts is None else Looks(doubts.look, tasks)

    async def head(self) -> Snapshot:
        """The newest snapshot, by a look that begins after this call."""
        return await self._heads.take()

    async def head_with_doubts(self) -> tuple[Snapshot, Doubtful]:
        """The newest snapshot, and beside it the tables whose names may be dead (P31)."""
        if self._doubts is None:
            return await self.head(), _NO_DOUBTS
        both: list[Snapshot | Doubtful] = await self._tasks.gather(
            cast("Coroutine[Any, Any, Snapshot | Doubtful]", self._heads.take()),
            cast("Coroutine[Any, Any, Snapshot | Doubtful]", self._doubts.take()),
        )
        return cast("Snapshot", both[0]), cast("Doubtful", both[1])

    async def at(self, as_of: str | None, head: Snapshot | None = None) -> Snapshot:
        """The snapshot at a point; `head` if the newest is wanted and already known."""
        if as_of is not None:
            return await self._reader.at(as_of)
        return head or await self.head()

    async def pinned(
        self, page_token: str | None, as_of: str | None, head: Snapshot | None = None
    ) -> tuple[Snapshot, Token | None]:
        """The snapshot that a list is read from, and where it goes on (P29)."""
        if page_token is None:
            return await self.at(as_of, head), None
        token = unpack(page_token)
        if head is not None and head.number == token.number:
            return head, token
        try:
            return await self._reader.at_number(token.number), token
        except NotFound:
            return await self.at(as_of, head), token


class ReplyCache:
    """Replies by the manifest and the URL that they follow from, the oldest forgotten first.

    What follows from a manifest is the same for everybody who may ask: who may is decided before. A reply
    that tells of tables also follows from what is in doubt; if it had to be asked whether one of them is
    there, it follows from more than can be known beforehand, and is not kept.
    """

    def __init__(self, room_bytes: int) -> None:
        self._room_bytes = room_bytes
        self._size_bytes = 0
        self._kept: OrderedDict[Key, Reply] = OrderedDict()

    def get(self, key: Key) -> Reply | None:
        """The reply that was kept, if it was."""
        reply = self._kept.get(key)
        if reply is not None:
            self._kept.move_to_end(key)
        return reply

    def keep(self, key: Key, reply: Reply) -> None:
        """Keep a reply, unless it is large or no success: what is not there is cheap to find out."""
        size = _size(key, reply)
        if reply.status != 200 or size > self._room_bytes // _LARGEST_SHARE or key in self._kept:
            return
        self._kept[key] = reply
        self._size_bytes += size
        while self._size_bytes > self._room_bytes:
            self._size_bytes -= _size(*self._kept.popitem(last=False))


def _size(key: Key, reply: Reply) -> int:
    return sum(map(len, key)) + len(reply.body) + _OVERHEAD_BYTES
