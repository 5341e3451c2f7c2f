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
from arco.storage.chain import Chain, ChainCache, Head
from arco.storage.entry import Entry
from arco.storage.store import Store

POINTERS = "_catalog/iceberg_pointers"


class PointerOperation:
    """The stored names of the operations that append an entry to a chain."""

    CREATE = "create"
    COMMIT = "commit"
    REGISTER = "register"
    DROP = "drop"
    UNREGISTER = "unregister"
    UNDROP = "undrop"
    ABANDON = "bury"  # ends the chain of a table that never came into effect
    FENCE = "fence"  # does not change the table


class SnapshotFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The current snapshot in a few numbers, so that reporting a commit needs no metadata."""

    snapshot_id: int
    operation: str | None = None
    rows: int | None = None
    size_bytes: int | None = None
    files: int | None = None
    added_rows: int | None = None
    added_bytes: int | None = None


class Pointer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The body of one chain entry.

    `previous_location` was in effect before, None at creation; it stays in effect while the
    transaction is undecided or if it is aborted (P33). In a tombstone `metadata_location` is the last
    one in effect, for an undrop. A `fence` only changes which attempt may publish.
    """

    request_id: str
    operation: str  # a `PointerOperation`
    actor: str
    metadata_location: str
    previous_location: str | None = None
    metadata_sha256: str | None = (
        None  # of the JSON, uncompressed; None in entries of older versions
    )
    table_uuid: str | None = None
    engine: str | None = None
    update_source: str = "iceberg_rest"
    schema_id: int | None = None
    sequence_number: int = 0
    snapshot: SnapshotFacts | None = None
    changed: tuple[str, ...] = ()  # the actions of the requested updates
    transaction: str | None = None
    purge: bool = False
    publication: Publication | None = None  # by an attempt at a task of a pipeline (P35)


def publication_of(entry: Entry) -> Publication | None:
    """The publication or fence of an entry, if it has one."""
    return pointer_of(entry).publication


def pointer_of(entry: Entry) -> Pointer:
    """The pointer in a chain entry."""
    return entry.body(Pointer)


class Pointers(ChainCache):
    """The chains of all tables and views, by their ids."""

    def __init__(self, store: Store) -> None:
        super().__init__(store, POINTERS)


@dataclass(frozen=True)
class RequestSearch:
    """The head of a chain, and the entry of the request, if it is on the chain."""

    head: Head
    landed: Entry | None = None


async def find_request(chain: Chain, number: int, request_id: str) -> RequestSearch:
    """Read the head and search the entries above `number` for the request.

    One round trip if there are none. Entries from before the claim cannot belong to the request, so
    `number` itself is not read again.
    """
    head = await chain.head()
    if head.number <= number:
        return RequestSearch(head)
    try:
        since = await chain.history(number + 1, head.number)
    except NotFound as collected:
        raise Unknown(
            "the pointers that would show whether this request has landed were garbage collected"
        ) from collected
    return RequestSearch(head, next((each for each in since if _carries(each, request_id)), None))


def _carries(entry: Entry, request_id: str) -> bool:
    """Whether an entry is the request's; in a transaction the outcome decides instead (P33)."""
    pointer = pointer_of(entry)
    return pointer.request_id == request_id and pointer.transaction is None
