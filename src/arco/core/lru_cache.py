"""A bounded cache that evicts what was used least recently."""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class LruCache(Generic[K, V]):
    """Values by key, whose sizes sum up to at most `max_size`; the default size of a value is 1.

    With `keep_newest` the newest value stays even if it is larger than `max_size`. `on_evict` receives each
    value that is evicted for want of space. It is not thread-safe.
    """

    def __init__(
        self,
        max_size: int,
        size_of: Callable[[V], int] = lambda _: 1,
        on_evict: Callable[[V], None] | None = None,
        *,
        keep_newest: bool = False,
    ) -> None:
        self._max_size = max_size
        self._size_of = size_of
        self._on_evict = on_evict
        self._min_values = 1 if keep_newest else 0
        self._size = 0
        self._values: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K) -> V | None:
        """The value of `key`, which counts as used now; None if it is not cached."""
        value = self._values.get(key)
        if value is not None:
            self._values.move_to_end(key)
        return value

    def put(self, key: K, value: V) -> None:
        """Add or replace a value. A value larger than the cache is not kept, except by `keep_newest`."""
        self.pop(key)
        self._values[key] = value
        self._size += self._size_of(value)
        while self._size > self._max_size and len(self._values) > self._min_values:
            _, evicted = self._values.popitem(last=False)
            self._size -= self._size_of(evicted)
            if self._on_evict is not None:
                self._on_evict(evicted)

    def pop(self, key: K) -> V | None:
        """Remove a value and return it; None if it is not cached."""
        value = self._values.pop(key, None)
        if value is not None:
            self._size -= self._size_of(value)
        return value

    def clear(self) -> None:
        """Remove all values, without `on_evict`."""
        self._values.clear()
        self._size = 0

    def values(self) -> Iterator[V]:
        """The values, least recently used first."""
        return iter(self._values.values())

    def __contains__(self, key: K) -> bool:
        return key in self._values

    def __len__(self) -> int:
        return len(self._values)
