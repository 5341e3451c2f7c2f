"""A backend whose objects carry the time of a clock that the test moves by hand."""

from dataclasses import replace

from arco.storage.backend import Backend, Meta
from tests.clocks import HandClock
from tests.storage.interposed import Interposed


class Dated(Interposed):
    """A wrapped backend with a separate clock."""

    def __init__(self, inner: Backend, clock: HandClock) -> None:
        super().__init__(inner)
        self._clock = clock
        self._made_ms: dict[str, int] = {}

    async def create(self, key: str, body: bytes) -> None:
        await super().create(key, body)
        self._made_ms[key] = self._clock.now_ms()

    async def put(self, key: str, body: bytes) -> None:
        await super().put(key, body)
        self._made_ms[key] = self._clock.now_ms()

    async def head(self, key: str) -> Meta:
        return replace(await super().head(key), modified_ms=self._made_ms[key])
