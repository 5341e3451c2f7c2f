"""The columns of every table of `system`."""

import pyarrow as pa

from arco.fold.column import Kind
from arco.fold.tier1 import TIER1

_S, _I, _T, _L = (Kind.STRING, Kind.INTEGER, Kind.TIME, Kind.STRINGS)


def _schema(**kinds: Kind) -> pa.Schema:
    return pa.schema([pa.field(name, kind.arrow()) for name, kind in kinds.items()])


HISTORY: dict[str, pa.Schema] = {
    "commits": _schema(
        number=_I,
        commit_ulid=_S,
        kind=_S,
        created_at=_T,
        authors=_L,
        operations=_I,
        files_added=_I,
        files_removed=_I,
        path=_S,
        sha256=_S,
        parent_sha256=_S,
    ),
    "audit": _schema(
        number=_I,
        commit_ulid=_S,
        at=_T,
        actor=_S,
        operation=_S,
        kind=_S,
        object_id=_S,
        name=_S,
        request_id=_S,
        event_id=_S,
    ),
    "manifests": _schema(
        number=_I,
        created_at=_T,
        commit_ulid=_S,
        sha256=_S,
        parent_sha256=_S,
        fencing_token=_I,
        rows_changed_at=_I,
        files=_I,
        rows=_I,
        bytes=_I,
        requests=_I,
    ),
    "files": _schema(
        table=_S, path=_S, rows=_I, bytes=_I, sha256=_S, place=_S, newest=_I, visibility=_S
    ).append(pa.field("buckets", pa.list_(pa.int64()))),
}

DROPPED = _schema(kind=_S, id=_S, name=_S, parent_id=_S, dropped_at=_T, dropped_with=_S)

SYSTEM: dict[str, pa.Schema] = {
    **{
        name: pa.schema([table.schema.field(column) for column in table.visible])
        for name, table in TIER1.items()
    },
    "dropped_objects": DROPPED,
    **HISTORY,
}
