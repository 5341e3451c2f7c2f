"""Requests that were carried out already, told by what they have left in the table.

Some clients send a commit again when its answer is lost, without a key. The second is refused, since the
first has moved the branch, and the client removes the files of what it takes for a failure: rows that
were committed. But a snapshot names its manifest list, whose path nobody else has, so a table that holds
just that snapshot has taken this very request.
"""

from collections.abc import Sequence

from arco.core.json import Json
from arco.iceberg.engine.metadata import Metadata

ADD = "add-snapshot"


def was_applied(base: Metadata, updates: Sequence[dict[str, Json]]) -> bool:
    """Whether the updates add snapshots, and all of them are in the table: the same ids, the same files."""
    added = [_mark(each.get("snapshot")) for each in updates if each.get("action") == ADD]
    snapshots = base.get("snapshots")
    if not added or not isinstance(snapshots, list):
        return False
    known = {_mark(each) for each in snapshots}
    return None not in added and known.issuperset(added)


def _mark(snapshot: Json) -> tuple[Json, str] | None:
    """What tells a snapshot from all others; None if it has no file of its own."""
    if not isinstance(snapshot, dict):
        return None
    files = snapshot.get("manifest-list")
    return (snapshot.get("snapshot-id"), files) if isinstance(files, str) else None
