"""The handle: scope, checks and limits that hold on every store."""

from pathlib import Path

import pytest

from arco.core.errors import Conflict, Denied, Invalid, NotFound, Unavailable
from arco.core.runtime import Runtime
from arco.core.scope import Scope
from arco.storage.address import parse_address
from arco.storage.backend import Backend
from arco.storage.open import open_backend
from arco.storage.roles import Role
from arco.storage.signing import UrlSigner
from arco.storage.store import MAX_SIGNED_S, Store
from tests.storage.interposed import Interposed
from tests.stores import open_bench

SCOPE = Scope("acme", "eu")


@pytest.fixture
def requests() -> list[tuple[str, str]]:
    return []


@pytest.fixture
def janitor(memory: Backend, runtime: Runtime, requests: list[tuple[str, str]]) -> Store:
    async def note(verb: str, key: str) -> None:
        requests.append((verb, key))

    return Store(Interposed(memory, before=note), runtime, scope=SCOPE, role=Role.JANITOR)


@pytest.fixture
def api(memory: Backend, runtime: Runtime) -> Store:
    return Store(memory, runtime, scope=SCOPE, role=Role.API)


async def test_every_key_is_put_below_the_scope_and_comes_back_without_it(
    janitor: Store, api: Store, requests: list[tuple[str, str]]
) -> None:
    await api.create("locks/d/x", b"12345")
    assert await janitor.get("locks/d/x") == b"12345"
    meta = await janitor.head("locks/d/x")
    assert (meta.key, meta.size_bytes) == ("locks/d/x", 5)
    assert [listed.key async for listed in janitor.list("locks/")] == ["locks/d/x"]
    assert await janitor.get_range("locks/d/x", 1, 2) == b"23"
    await janitor.delete("locks/d/x")
    assert {key for _, key in requests} == {
        "tenant=acme/workspace=eu/locks/d/x",
        "tenant=acme/workspace=eu/locks/",
    }


async def test_find_is_none_where_get_is_not_found(api: Store) -> None:
    assert await api.find("locks/x") is None
    with pytest.raises(NotFound):
        await api.get("locks/x")
    await api.create("locks/x", b"")
    assert await api.find("locks/x") == b""


async def test_a_second_create_of_the_same_bytes_is_ours_and_of_others_a_conflict(
    api: Store,
) -> None:
    await api.create("locks/x", b"with an id")
    await api.create("locks/x", b"with an id")
    with pytest.raises(Conflict):
        await api.create("locks/x", b"another's")


async def test_a_listing_goes_on_behind_a_key(api: Store, janitor: Store) -> None:
    for name in "abcd":
        await api.create(f"locks/{name}", b"x")
    after = [meta.key async for meta in janitor.list("locks/", after="locks/b")]
    assert after == ["locks/c", "locks/d"]


@pytest.mark.parametrize("prefix", ["locks", "/", "../", "a//", "locks/../", "\0/", "a\\/"])
async def test_a_listing_takes_whole_parts_only(
    janitor: Store, requests: list[tuple[str, str]], prefix: str
) -> None:
    with pytest.raises(Invalid):
        assert [meta async for meta in janitor.list(prefix)] == []
    assert requests == []


@pytest.mark.parametrize(
    "after", ["a//b", "..", "../x", "a\0", "\ud800", "/abs", "a\\b", "x" * 2_000]
)
@pytest.mark.parametrize("kind", ["memory", "local"])
async def test_a_listing_behind_a_hostile_key_is_invalid(
    kind: str, after: str, tmp_path: Path, runtime: Runtime
) -> None:
    bench = open_bench("memory://" if kind == "memory" else str(tmp_path / "store"), runtime)
    with pytest.raises(Invalid):
        assert [meta async for meta in bench.store(Role.JANITOR).list("", after=after)] == []


@pytest.mark.parametrize(("start", "length"), [(-1, 5), (0, 0), (0, -1), (5, -5)])
async def test_a_range_that_makes_no_sense_is_invalid(
    janitor: Store, requests: list[tuple[str, str]], start: int, length: int
) -> None:
    with pytest.raises(Invalid):
        await janitor.get_range("locks/x", start, length)
    assert requests == []


async def test_a_hint_is_tried_once(memory: Backend, runtime: Runtime) -> None:
    tried: list[str] = []

    async def refuse(verb: str, key: str) -> None:
        tried.append(verb)
        raise Unavailable("503")

    store = Store(Interposed(memory, before=refuse), runtime, scope=SCOPE, role=Role.API)
    assert await store.put_hint("locks/d/head.json", b"1") is False
    assert tried == ["put"]


async def test_a_hint_is_no_way_to_overwrite_what_counts(api: Store) -> None:
    await api.create("locks/d/00000000000000000000.json", b"1")
    with pytest.raises(Denied):
        await api.put_hint("locks/d/00000000000000000000.json", b"2")
    assert await api.get("locks/d/00000000000000000000.json") == b"1"


@pytest.mark.parametrize("kind", ["memory", "local"])
async def test_a_signed_url_names_the_key_with_its_scope_and_lives_an_hour_at_most(
    kind: str, tmp_path: Path, runtime: Runtime
) -> None:
    signer = UrlSigner(b"k" * 32, "http://127.0.0.1:8181")
    address = parse_address("memory://" if kind == "memory" else str(tmp_path / "store"))
    backend = open_backend(address, runtime, fsync=False, signer=signer)
    store = Store(backend, runtime, scope=SCOPE, role=Role.API)
    url = await store.sign("state/d/x.parquet", expires_s=MAX_SIGNED_S)
    now_ms = runtime.clock.now_ms()
    assert signer.verify(url, now_ms) == "tenant=acme/workspace=eu/state/d/x.parquet"
    with pytest.raises(Denied):
        signer.verify(url, now_ms + MAX_SIGNED_S * 1_000 + 1_000)
    for expires_s in (0, -1, MAX_SIGNED_S + 1):
        with pytest.raises(Invalid):
            await store.sign("state/d/x.parquet", expires_s)


@pytest.mark.parametrize("kind", ["memory", "local"])
async def test_a_store_without_an_address_says_why_it_cannot_sign(
    kind: str, tmp_path: Path, runtime: Runtime
) -> None:
    bench = open_bench("memory://" if kind == "memory" else str(tmp_path / "store"), runtime)
    with pytest.raises(Invalid, match="start a server"):
        await bench.store().sign("state/d/x.parquet")
