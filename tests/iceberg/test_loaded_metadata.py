"""Loaded metadata: the forms and ETags of its answers, the cache, and loads that requests share."""

import asyncio
import gc
import gzip
import weakref

from arco.core import json
from arco.iceberg.engine.metadata import Metadata, encode_metadata, refs_only
from arco.iceberg.loaded_metadata import LoadedMetadata, MetadataCache, SnapshotsMode
from tests.iceberg.engine.sample_metadata import append, apply, point, table
from tests.iceberg.iceberg_setup import CATALOG, NS, Api, IcebergSetup, marks_of, with_table

LOCATION = "s3://bucket/t/metadata/00003-x.metadata.json"


def _history() -> Metadata:
    """Three snapshots, of which a branch and a tag name two."""
    return apply(append(table(), 1, 2, 3), point(1, "old", "tag"))


def _loaded(
    metadata: Metadata, location: str | None = LOCATION, config: bytes = b"{}"
) -> LoadedMetadata:
    return LoadedMetadata(location, encode_metadata(metadata), config=config)


def test_an_answer_is_the_stored_bytes_with_a_head_and_a_tail() -> None:
    raw = b'{ "format-version" : 2, "table-uuid":"x", "unknown": [1, 1.50] }'
    loaded = LoadedMetadata(LOCATION, raw, config=b'{"a":"b"}')
    assert loaded.body(SnapshotsMode.ALL) == (
        b'{"metadata-location":"'
        + LOCATION.encode()
        + b'","metadata":'
        + raw
        + b',"config":{"a":"b"}}'
    )
    assert loaded.raw == raw


def test_what_was_staged_has_no_location() -> None:
    body = json.decode(_loaded(table(), None).body(SnapshotsMode.ALL), dict)
    assert body["metadata-location"] is None
    assert body["metadata"] == table()


def test_a_location_with_signs_that_json_escapes_is_answered_as_it_is() -> None:
    location = 's3://b/"quoted"\\and\x7fmore/ü'
    assert (
        json.decode(_loaded(table(), location).body(SnapshotsMode.ALL), dict)["metadata-location"]
        == location
    )


def test_the_short_form_leaves_out_snapshots_that_nothing_names() -> None:
    metadata = _history()
    loaded = _loaded(metadata)
    short = json.decode(loaded.body(SnapshotsMode.REFS), dict)
    assert [each["snapshot-id"] for each in short["metadata"]["snapshots"]] == [1, 3]
    assert short["metadata"] == refs_only(metadata)
    assert short["metadata-location"] == LOCATION
    assert json.decode(loaded.body(SnapshotsMode.ALL), dict)["metadata"] == metadata


def test_the_short_form_of_a_table_without_spare_snapshots_is_the_whole_one() -> None:
    loaded = _loaded(append(table(), 1))
    assert loaded.body(SnapshotsMode.REFS) == loaded.body(SnapshotsMode.ALL)


def test_a_compressed_answer_says_the_same_and_is_made_once() -> None:
    loaded = _loaded(_history())
    for form in SnapshotsMode:
        assert gzip.decompress(loaded.gzipped(form)) == loaded.body(form)
        assert loaded.gzipped(form) is loaded.gzipped(form)


def test_tags_distinguish_forms_and_files_and_nothing_else() -> None:
    one = _loaded(_history())
    tags = {one.etag(form) for form in SnapshotsMode} | {
        _loaded(_history(), f"{LOCATION}2").etag(form) for form in SnapshotsMode
    }
    assert len(tags) == 4
    assert all(tag.startswith('"') and tag.endswith('"') and len(tag) > 10 for tag in tags)
    assert _loaded(table()).etag(SnapshotsMode.ALL) == one.etag(SnapshotsMode.ALL), (
        "a file never changes"
    )


def test_metadata_are_parsed_when_they_are_needed_and_take_more_room_then() -> None:
    loaded = _loaded(_history())
    before = loaded.kept_bytes
    loaded.body(SnapshotsMode.ALL)
    assert loaded.kept_bytes == before
    assert loaded.metadata == _history()
    assert loaded.kept_bytes > before


def test_a_cache_has_what_was_put_into_it() -> None:
    metadata_cache, loaded = MetadataCache(1_000_000), _loaded(table())
    assert metadata_cache.get(LOCATION) is None
    metadata_cache.put(loaded)
    assert metadata_cache.get(LOCATION) is loaded
    metadata_cache.forget(LOCATION)
    assert metadata_cache.get(LOCATION) is None
    metadata_cache.forget(LOCATION)


def test_what_was_staged_is_not_kept() -> None:
    metadata_cache = MetadataCache(1_000_000)
    metadata_cache.put(_loaded(table(), None))
    assert not metadata_cache._by_location


def test_a_full_cache_drops_the_least_recently_used() -> None:
    each = _loaded(table()).kept_bytes
    metadata_cache = MetadataCache(20 * each)
    for n in range(200):
        metadata_cache.put(_loaded(table(), f"{LOCATION}{n}"))
        metadata_cache.get(f"{LOCATION}0")
    assert metadata_cache.get(f"{LOCATION}0") is not None
    assert metadata_cache.get(f"{LOCATION}1") is None
    assert metadata_cache.get(f"{LOCATION}199") is not None
    assert sum(cached.kept_bytes for cached in metadata_cache._by_location.values()) <= 36 * each


def test_one_file_that_is_larger_than_the_cache_is_kept_alone() -> None:
    metadata_cache = MetadataCache(10)
    for n in range(3):
        metadata_cache.put(_loaded(table(), f"{LOCATION}{n}"))
    assert list(metadata_cache._by_location) == [f"{LOCATION}2"]


async def load_since(api: Api, since_ms: float) -> set[str]:
    return marks_of(await api.iceberg.tables.load(CATALOG, NS, "t", since_ms=since_ms))


def now_ms(setup: IcebergSetup) -> float:
    return setup.inner.clock.elapsed_ms()


async def let_go(reference: weakref.ref[LoadedMetadata]) -> None:
    """Wait until it is garbage collected: a thread or a reference cycle may still hold it."""
    async with asyncio.timeout(10):
        while reference() is not None:
            gc.collect()
            await asyncio.sleep(0.01)


async def test_requests_that_arrived_before_a_load_began_share_it() -> None:
    setup, _ = await with_table("t")
    came_ms = now_ms(setup)
    setup.pass_by(1)
    await load_since(setup.a, came_ms)
    request_count = len(setup.a.connection.seen)
    await load_since(setup.a, came_ms)
    await load_since(setup.a, came_ms + 500)
    assert len(setup.a.connection.seen) == request_count


async def test_a_request_that_arrived_after_a_load_began_sees_later_commits() -> None:
    setup, _ = await with_table("t")
    await load_since(setup.a, now_ms(setup))
    setup.pass_by(1)
    await setup.b.mark("t", "meanwhile")
    setup.pass_by(1)
    assert await load_since(setup.a, now_ms(setup)) == {"meanwhile"}


async def test_a_load_without_a_time_is_never_shared() -> None:
    setup, _ = await with_table("t")
    await setup.a.load("t")
    await setup.b.mark("t", "at once")
    assert marks_of(await setup.a.load("t")) == {"at once"}


async def test_a_new_table_with_the_same_name_is_not_taken_for_the_old_one() -> None:
    setup, _ = await with_table("t")
    await load_since(setup.a, now_ms(setup))
    setup.pass_by(1)
    await setup.b.drop("t")
    await setup.b.create("t")
    await setup.b.mark("t", "new")
    assert await load_since(setup.a, now_ms(setup)) == {"new"}


async def test_metadata_that_left_the_cache_is_read_again() -> None:
    setup, _ = await with_table("t")
    came_ms = now_ms(setup)
    loaded = await setup.a.iceberg.tables.load(CATALOG, NS, "t", since_ms=came_ms)
    assert loaded.location is not None
    setup.a.context.metadata_cache.forget(loaded.location)
    reference = weakref.ref(loaded)
    del loaded
    await let_go(reference)
    request_count = len(setup.a.connection.seen)
    await load_since(setup.a, came_ms)
    assert len(setup.a.connection.seen) > request_count
