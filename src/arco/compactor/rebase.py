"""Rebasing: publishing on the newest head, whatever was published since the work began (P26, P27).

Who publishes says on which heads its work still holds, and what it comes to there. The names of its files
hold a ULID; if a head's mark has passed it, they may be deleted, as nobody names them yet. An unknown
outcome is looked for by the commit's ULID before anything else is done.
"""

from collections.abc import Callable

from arco.catalog.manifest import Manifest, read_manifest
from arco.compactor.publish import Change, Publisher, mark_of, parent_of
from arco.core.errors import Conflict, NotFound, Unknown
from arco.storage.chain import Head


def is_doomed(attempt: str, head: Manifest | None) -> bool:
    """Whether files of an attempt may be deleted before a manifest on `head` could name them (P27)."""
    mark = mark_of(head)
    return mark is not None and attempt <= mark


async def publish_on_head(
    publisher: Publisher,
    head: Head,
    attempt: str,
    holds: Callable[[Manifest | None], bool],
    change: Callable[[Manifest | None], Change],
) -> Head | None:
    """Publish on the newest head on which the work holds; None if it does not, and nothing was published.

    All changes bear one commit ULID. `Unknown` if even looking does not tell whether it has landed.
    """
    while True:
        parent = parent_of(head)
        if is_doomed(attempt, parent) or not holds(parent):
            return None
        draft = change(parent)
        try:
            return await publisher.publish(head, draft)
        except Conflict:
            head = await publisher.chain.head()
        except Unknown:
            landed = await _landed(publisher, head, draft.commit_ulid)
            if landed is None:
                raise
            return landed


async def _landed(publisher: Publisher, after: Head, commit_ulid: str) -> Head | None:
    """The manifest of a commit, if it is there above `after`."""
    head = await publisher.chain.head()
    if head.number <= after.number:
        return None
    try:
        since = await publisher.chain.history(after.number + 1, head.number)
    except NotFound:
        return None  # collected meanwhile: nobody can tell any more
    for entry in since:
        if read_manifest(entry).commit_ulid == commit_ulid:
            return Head(entry, head.seen_ms)
    return None
