"""Pointers: the metadata file that a table or view is at, as one numbered chain for each (P30).

A chain is stored under the catalog's id of the table. Each entry names the metadata file, the request
that made it and the file before it; a drop is a tombstone, an undrop an entry after it. Creating an
entry is the commit point of a commit (law 3). `find_request` searches a chain for the entry of a
request (P11).
"""

from dataclasses import dataclass

import msgspec

from arco.catalog.publication import Publication
from arco.core.errors import NotFound, Unknown
from arco.storage.chain import Chain, Head
from arco.storage.chains import Chains
from arco.storage.link import Entry
from arco.storage.store import Store

POINTERS = "_catalog/iceberg_pointers"
FENCE = "fence"  # the operation of a number that changes nothing


class SnapshotFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The current snapshot in a few numbers, so that nobody has to read metadata to tell of a commit."""

    snapshot_id: int
    operation: str | None = None
    rows: int | None = None
    size_bytes: int | None = None
    files: int | None = None
    added_rows: int | None = None
    added_bytes: int | None = None


class Pointer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The body of one number.

    `previous_location` is what was in effect before, None at birth: it is what counts while the
    transaction is undecided or if it was aborted (P33). In a tombstone `metadata_location` is the last
    that was in effect, for an undrop. A `fence` changes nothing but who may publish.
    """

    request_id: str
    operation: str  # create, commit, register, drop, unregister, undrop, bury, fence
    actor: str
    metadata_location: str
    previous_location: str | None = None
    table_uuid: str | None = None
    engine: str | None = None
    update_source: str = "iceberg_rest"
    schema_id: int | None = None
    sequence_number: int = 0
    snapshot: SnapshotFacts | None = None
    changed: tuple[str, ...] = ()  # the updates that were asked for, by name
    transaction: str | None = None
    purge: bool = False
    publication: Publication | None = None  # of an attempt at a task of a pipeline (P35)


def publication_of(entry: Entry) -> Publication | None:
    """What a number publishes or fences, if it does."""
    return pointer_of(entry).publication


def pointer_of(entry: Entry) -> Pointer:
    """What a number says."""
    return entry.body(Pointer)


class Pointers(Chains):
    """The chains of all tables and views, by their ids."""

    def __init__(self, store: Store) -> None:
        super().__init__(store, POINTERS)


@dataclass(frozen=True)
class RequestSearch:
    """The end of a chain, and the number up to it that carries the request, if there is one."""

    head: Head
    landed: Entry | None = None


async def find_request(chain: Chain, number: int, request_id: str) -> RequestSearch:
    """The head, and whether the request has landed above `number`, up to that very head.

    One round trip if nothing has happened since. What was there before the request was claimed cannot
    be its own, so `number` itself need not be read again.
    """
    head = await chain.head()
    if head.number <= number:
        return RequestSearch(head)
    try:
        since = await chain.history(number + 1, head.number)
    except NotFound as collected:
        raise Unknown(
            "what would show whether this request has landed was collected"
        ) from collected
    return RequestSearch(head, next((each for each in since if _carries(each, request_id)), None))


def _carries(entry: Entry, request_id: str) -> bool:
    """A number that names a transaction has not landed by being there; its outcome says (P33)."""
    pointer = pointer_of(entry)
    return pointer.request_id == request_id and pointer.transaction is None
