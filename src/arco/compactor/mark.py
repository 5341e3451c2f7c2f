"""Marks: publishing that older files which no manifest names may be deleted (P27)."""

from arco.catalog.compactor_port import PublishedCommit
from arco.catalog.manifest import CommitKind
from arco.compactor.publish import Change, Publisher, parent_of
from arco.compactor.sync import committed
from arco.core.errors import Conflict, Invalid
from arco.core.ids import new_ulid, parse_ulid

_TIME = 10  # so many characters of a ULID are its time


async def mark_orphans(publisher: Publisher, before: str) -> PublishedCommit:
    """Publish a mark, unless one at least as high is published already."""
    runtime = publisher.store.runtime
    mark = parse_ulid(before)
    if mark[:_TIME] > new_ulid(runtime)[:_TIME]:
        # It is never lowered, and every name of a file to come has to lie above it.
        raise Invalid("orphans are marked up to a moment that has passed")
    while True:
        head = await publisher.chain.head()
        parent = parent_of(head)
        if parent is None:
            raise Invalid("nothing was published yet, so there is nothing to mark")
        if parent.orphans_before is not None and parent.orphans_before >= mark:
            return committed(head)
        change = Change(
            kind=CommitKind.MARK,
            commit_ulid=new_ulid(runtime),
            tail=parent.tail,
            base=parent.base,
            orphans_before=mark,
        )
        try:
            return committed(await publisher.publish(head, change))
        except Conflict:
            continue
