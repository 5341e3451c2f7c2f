"""The bounded cache: what was used least recently is evicted first."""

from arco.core.lru_cache import LruCache


def test_the_least_recently_used_value_is_evicted_first() -> None:
    evicted: list[str] = []
    cache = LruCache[int, str](2, on_evict=evicted.append)
    cache.put(1, "a")
    cache.put(2, "b")
    assert cache.get(1) == "a"
    cache.put(3, "c")
    assert (evicted, list(cache.values()), 2 in cache, len(cache)) == (["b"], ["a", "c"], False, 2)


def test_sizes_are_summed_up_and_given_back() -> None:
    cache = LruCache[str, bytes](10, size_of=len)
    cache.put("a", b"x" * 6)
    cache.put("a", b"x" * 4)  # replaced, so 4 bytes are used and not 10
    cache.put("b", b"x" * 6)
    assert len(cache) == 2
    assert cache.pop("a") == b"x" * 4
    assert cache.pop("a") is None
    cache.put("c", b"x" * 4)
    assert len(cache) == 2
    cache.put("large", b"x" * 11)
    assert len(cache) == 0
    cache.put("d", b"x" * 10)
    assert len(cache) == 1
    cache.clear()
    cache.put("e", b"x" * 10)
    assert "e" in cache


def test_the_newest_value_can_be_kept_whatever_its_size() -> None:
    cache = LruCache[str, bytes](10, size_of=len, keep_newest=True)
    cache.put("large", b"x" * 11)
    assert "large" in cache
    cache.put("small", b"x")
    assert [*cache.values()] == [b"x"]
