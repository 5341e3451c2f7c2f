"""What was staged in Iceberg and never published goes once it is old, and nothing else goes."""

from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from arco.flow.define.options import Mode
from arco.flow.spark.engine import activate
from arco.flow.spark.iceberg_table import IcebergCatalogs, IcebergTable
from arco.flow.spark.stage_iceberg import IcebergTables
from arco.flow.spark.stale import drop_stale, stale_ids
from arco.flow.spark.target import Room, Target
from arco.storage.collect import DEFAULT_RETENTION_MS
from tests.flow.spark.house import House
from tests.flow.spark.test_publishing import target

APPEND = Mode("append")
LATER = 2 * DEFAULT_RETENTION_MS
MINUTE = 60_000


class Bench:
    """A table in a session of its own; attempts are told apart by a number, and by when they were."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.session = house.shared.open().newSession()
        activate(self.session)
        self.tables = IcebergTables(Room(self.session, house.shared.lake))
        self.head = -1

    def stage(self, number: int, *, publish: bool = False, later_ms: int = 0) -> None:
        """Stage a row, and let everybody see it if `publish`; else it is kept for people to look at."""
        wanted = self.target(number, later_ms)
        frame = self.session.range(number, number + 1)
        self.tables.open(wanted, frame.schema)
        staged = self.tables.stage(wanted, frame)
        if publish:
            self.head = self.tables.publish(wanted, staged).number
        else:
            self.tables.keep(wanted, staged)

    def target(self, number: int, later_ms: int = 0) -> Target:
        wanted = target(self.house, APPEND, number, self.head)
        ms = wanted.attempt.dispatched_at_ms + later_ms
        attempt = msgspec.structs.replace(wanted.attempt, dispatched_at_ms=ms)
        return replace(wanted, attempt=attempt)

    def table(self) -> IcebergTable:
        found = IcebergCatalogs(self.session).load(self.house.name("$.t"))
        assert found is not None
        return found

    def snapshots(self) -> int:
        return sum(1 for _ in self.table().snapshots())

    def files(self) -> set[str]:
        """The data files that lie there, whoever knows of them."""
        place = Path(urlsplit(str(self.table().java.location())).path, "data")
        return {each.name for each in place.rglob("*.parquet")}


def test_what_is_old_and_was_never_published_goes_with_its_files(house: House) -> None:
    bench = Bench(house)
    bench.stage(1, publish=True)
    published = bench.files()
    bench.stage(2)
    bench.stage(3, later_ms=DEFAULT_RETENTION_MS - MINUTE)
    assert len(bench.files()) == 3  # nothing is old yet
    soon = bench.target(4, DEFAULT_RETENTION_MS + MINUTE)
    assert drop_stale(bench.session, bench.table(), soon) == 1
    assert drop_stale(bench.session, bench.table(), soon) == 0
    assert bench.snapshots() == 2
    assert len(bench.files()) == 2
    assert published < bench.files()
    assert house.rows("$.t") == [(1,)]


def test_whoever_writes_next_drops_it(house: House) -> None:
    bench = Bench(house)
    bench.stage(1, publish=True)
    bench.stage(2)
    bench.stage(3, publish=True, later_ms=LATER)
    assert bench.snapshots() == 2
    assert len(bench.files()) == 2
    assert house.rows("$.t") == [(1,), (3,)]


def test_publishing_lets_go_of_no_other_snapshot_however_old(house: House) -> None:
    bench = Bench(house)
    bench.stage(1, publish=True)
    java: Any = bench.table().java
    java.updateProperties().set("history.expire.max-snapshot-age-ms", "1").commit()
    bench.stage(2)
    bench.stage(3, publish=True)
    assert bench.snapshots() == 3


def test_what_a_reference_leads_to_or_everybody_has_seen_stays() -> None:
    summary = {"wap.id": "a" * 32, "arco.attempt": '{"dispatched_at_ms": 10}'}
    own = {number: {"snapshot-id": number, "summary": summary} for number in range(1, 8)}
    own[4]["parent-snapshot-id"] = 3
    own[6]["summary"] = {"wap.id": "of somebody else", "arco.attempt": summary["arco.attempt"]}
    own[7]["summary"] = {"wap.id": "a" * 32}
    metadata = {
        "snapshots": list(own.values()),
        "snapshot-log": [{"snapshot-id": 1}],
        "refs": {"main": {"snapshot-id": 2}, "kept": {"snapshot-id": 4}},
    }
    assert stale_ids(metadata, 11) == [5]
    assert stale_ids(metadata, 10) == []
