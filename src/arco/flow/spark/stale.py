"""Staged snapshots that nobody publishes any more: dropped, with their files, once they are old enough.

A check that does not hold, an error or a stop leaves what was staged behind; people look at it, and days
later nobody does. Ages are told by the times at which the book of runs has dispatched attempts, as the
clocks of workers differ. What a branch or a tag leads to stays, and so does what everybody has seen once.

Old enough is what is older than chains are kept by default: an attempt half as old is refused (P35), so
what goes cannot be published meanwhile. A worker does not know how long the catalog keeps its chains. Where
that is longer, an attempt that has worked for more than a week finds its files gone when it publishes,
fails, and is made again: nobody sees half of it.
"""

import json
from collections.abc import Iterable
from typing import Any

from pyspark.sql import SparkSession

from arco.catalog.publication import ATTEMPT_PROPERTY
from arco.flow.publish.tables import is_attempt_id
from arco.flow.spark.iceberg_table import WAP_ID, IcebergTable
from arco.flow.spark.jvm import is_raised_by, jvm_of
from arco.flow.spark.target import Target
from arco.storage.collect import DEFAULT_RETENTION_MS


def drop_stale(
    session: SparkSession,
    table: IcebergTable,
    target: Target,
    *,
    kept_ms: int = DEFAULT_RETENTION_MS,
) -> int:
    """How many went. If somebody else changes the table right now, none do, and the next attempt tries."""
    current = table.java.operations().current()
    if current.snapshots().size() == current.snapshotLog().size():
        return 0  # everybody has seen all of them
    told = jvm_of(session).org.apache.iceberg.TableMetadataParser.toJson(current)
    before_ms = target.attempt.dispatched_at_ms - kept_ms
    if not (stale := stale_ids(json.loads(told), before_ms)):
        return 0
    # Not by their age: how long published ones are kept is not ours to say.
    expiry = table.java.expireSnapshots().expireOlderThan(0)
    for each in stale:
        expiry = expiry.expireSnapshotId(each)
    try:
        expiry.cleanExpiredFiles(True).commit()
    except Exception as problem:
        if is_raised_by(problem, "CommitFailedException", "ValidationException"):
            return 0
        raise
    table.refresh()
    return len(stale)


def stale_ids(metadata: dict[str, Any], before_ms: int) -> list[int]:
    """The snapshots that attempts from before a time have staged, and that nothing leads to."""
    snapshots = {each["snapshot-id"]: each for each in metadata.get("snapshots", ())}
    seen = {each["snapshot-id"] for each in metadata.get("snapshot-log", ())}
    refs = {each["snapshot-id"] for each in metadata.get("refs", {}).values()}
    led_to = _with_parents(seen | refs, snapshots)
    return [
        number
        for number, each in snapshots.items()
        if number not in led_to and _staged_at_ms(each.get("summary", {}), before_ms) < before_ms
    ]


def _with_parents(numbers: Iterable[int], snapshots: dict[int, dict[str, Any]]) -> set[int]:
    found: set[int] = set()
    for start in numbers:
        number: int | None = start
        while number is not None and number not in found:
            found.add(number)
            number = snapshots.get(number, {}).get("parent-snapshot-id")
    return found


def _staged_at_ms(summary: dict[str, str], otherwise: int) -> int:
    """When the attempt was dispatched that has staged this; `otherwise` for what is none of ours."""
    if not is_attempt_id(summary.get(WAP_ID, "")):
        return otherwise
    try:
        attempt = json.loads(summary.get(ATTEMPT_PROPERTY, ""))
        return int(attempt["dispatched_at_ms"])
    except (ValueError, TypeError, KeyError):
        return otherwise
