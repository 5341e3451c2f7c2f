"""The contract of the seam: one suite over every kind of store (figure 13)."""

import pytest

from arco.core.errors import AlreadyExists, Conflict, Invalid, NotFound
from arco.storage.chain import Chain, Head
from arco.storage.roles import Role
from tests.stores import Bench

ODD_NAMES = (
    "with space",
    "ünïcode-日本語",
    "a%2e%2e%2fb",
    "plus+and=and&and#and?",
    "quote'\"`",
    "[brackets]{braces}^|~",
    "-dash",
    ".hidden",
    "trailing.",
    "*star",
    "a" * 200,
)


async def test_a_created_object_is_read_back_whole(bench: Bench) -> None:
    await bench.backend.create("a/b.json", b"hello")
    assert await bench.backend.get("a/b.json") == b"hello"
    meta = await bench.backend.head("a/b.json")
    assert (meta.key, meta.size_bytes) == ("a/b.json", 5)
    assert abs(meta.modified_ms - bench.runtime.clock.now_ms()) < 60_000


async def test_a_second_create_fails_and_changes_nothing(bench: Bench) -> None:
    await bench.backend.create("a", b"first")
    with pytest.raises(AlreadyExists):
        await bench.backend.create("a", b"second")
    assert await bench.backend.get("a") == b"first"


async def test_an_empty_object_can_be_created(bench: Bench) -> None:
    await bench.backend.create("empty", b"")
    assert await bench.backend.get("empty") == b""


async def test_a_missing_object_is_not_found_by_any_verb(bench: Bench) -> None:
    await bench.backend.create("there/x", b"1")
    for key in ("nowhere", "there", "there/y", "there/x/y" if bench.is_flat else "there/z"):
        with pytest.raises(NotFound):
            await bench.backend.get(key)
        with pytest.raises(NotFound):
            await bench.backend.get_range(key, 0, 1)
        with pytest.raises(NotFound):
            await bench.backend.head(key)
        await bench.backend.delete(key)
    assert await bench.backend.get("there/x") == b"1"


async def test_ranges_end_with_the_object(bench: Bench) -> None:
    await bench.backend.create("r", b"0123456789")
    assert await bench.backend.get_range("r", 0, 4) == b"0123"
    assert await bench.backend.get_range("r", 6, 100) == b"6789"
    assert await bench.backend.get_range("r", 10, 1) == b""
    assert await bench.backend.get_range("r", 99, 1) == b""


async def test_a_big_object_survives_whole_and_in_ranges(bench: Bench) -> None:
    body = bytes(range(256)) * 65_536  # 16 MiB
    await bench.backend.create("big", body)
    with pytest.raises(AlreadyExists):
        await bench.backend.create("big", body)
    assert await bench.backend.get("big") == body
    assert await bench.backend.get_range("big", 5_000_000, 1_000_000) == body[5_000_000:6_000_000]


async def test_a_hint_replaces_the_one_before(bench: Bench) -> None:
    await bench.backend.put("h/head.json", b"1")
    await bench.backend.put("h/head.json", b"2")
    assert await bench.backend.get("h/head.json") == b"2"


async def test_a_deleted_key_can_be_recreated(bench: Bench) -> None:
    await bench.backend.create("d", b"1")
    await bench.backend.delete("d")
    await bench.backend.delete("d")
    await bench.backend.create("d", b"2")
    assert await bench.backend.get("d") == b"2"


async def test_listing_is_in_byte_order_and_keeps_to_its_prefix(bench: Bench) -> None:
    keys = ["p/a", "p/a-b", "p/a/1", "p/aa", "p/b/1", "p/b/10", "p/b/2", "p/é", "pp/x", "q"]
    if not bench.is_flat:
        keys.remove("p/a")  # a file system cannot hold a file and a directory of one name
    for key in reversed(keys):
        await bench.backend.create(key, b"x")
    expected = sorted((key for key in keys if key.startswith("p/")), key=str.encode)
    assert [meta.key async for meta in bench.backend.list("p/")] == expected
    after = [meta.key async for meta in bench.backend.list("p/", "p/b/1")]
    assert after == [key for key in expected if key.encode() > b"p/b/1"]
    assert [meta.key async for meta in bench.backend.list("none/")] == []


@pytest.mark.parametrize("name", ODD_NAMES)
async def test_odd_names_are_kept_to_the_letter(bench: Bench, name: str) -> None:
    key = f"odd/{name}/{name}"
    await bench.backend.create(key, name.encode())
    assert await bench.backend.get(key) == name.encode()
    assert [meta.key async for meta in bench.backend.list("odd/")] == [key]


async def test_one_of_many_racers_wins_and_every_other_sees_the_winner(bench: Bench) -> None:
    store, racers = bench.store(), 40 if bench.is_slow else 200

    async def race(n: int) -> bool:
        try:
            await store.create("locks/race.json", f"racer {n}".encode())
        except Conflict:
            return False
        return True

    won = await bench.runtime.tasks.gather(*(race(n) for n in range(racers)))
    assert sum(won) == 1
    assert await store.get("locks/race.json") == f"racer {won.index(True)}".encode()


async def test_racing_writers_make_each_number_exactly_once(bench: Bench) -> None:
    writers, appends = (6, 8) if bench.is_slow else (16, 25)

    async def write(writer: int) -> None:
        chain = Chain(bench.store(), "locks/contended")
        for n in range(appends):

            async def build(_: Head, n: int = n) -> list[int]:
                return [writer, n]

            await chain.extend(build)
        await chain.close()

    await bench.runtime.tasks.gather(*(write(writer) for writer in range(writers)))
    chain = Chain(bench.store(), "locks/contended")
    last = writers * appends - 1
    assert (await chain.head()).number == last
    bodies = [tuple(entry.body(list[int])) for entry in await chain.history(0, last)]
    assert sorted(bodies) == [(writer, n) for writer in range(writers) for n in range(appends)]


async def test_two_tenants_with_the_same_key_never_meet(bench: Bench) -> None:
    one, two = bench.store(tenant="a"), bench.store(tenant="ab")
    await one.create("locks/x.json", b"of a")
    await two.create("locks/x.json", b"of ab")
    assert await one.get("locks/x.json") == b"of a"
    janitor = bench.store(Role.JANITOR, tenant="a")
    assert [meta.key async for meta in janitor.list("")] == ["locks/x.json"]


HOSTILE = (
    *("", "/", "/abs", "a//b", "a/", "..", "../x", "a/../../b", "a/./b", "./a", "a/.."),
    *("a\\..\\b", "a\0b", "a\nb", "\x7f", "a\u202eb", "\ud800", "x" * 256, "d/" * 600 + "x"),
)


@pytest.mark.parametrize("key", HOSTILE)
async def test_a_hostile_key_is_refused_before_any_store_sees_it(bench: Bench, key: str) -> None:
    store = bench.store(Role.JANITOR)
    for attempt in (store.get(key), store.head(key), store.delete(key), store.create(key, b"x")):
        with pytest.raises(Invalid):
            await attempt
    assert [meta async for meta in store.list("")] == []
