"""Many chains below one folder, as a process remembers them; those not used for long are let go."""

from collections import OrderedDict

from arco.core.tasks import Task
from arco.storage.chain import Chain
from arco.storage.store import Store

_REMEMBERED = 10_000


class Chains:
    """The chains of a folder, each by its own name."""

    def __init__(self, store: Store, folder: str) -> None:
        self._store = store
        self._folder = folder
        self._chains: OrderedDict[str, Chain] = OrderedDict()
        self._closing: set[Task[None]] = set()

    def chain(self, name: str) -> Chain:
        """The chain of this name."""
        chain = self._chains.get(name)
        if chain is None:
            chain = self._chains[name] = Chain(self._store, f"{self._folder}/{name}")
            if len(self._chains) > _REMEMBERED:
                self._let_go(self._chains.popitem(last=False)[1])
        else:
            self._chains.move_to_end(name)
        return chain

    async def close(self) -> None:
        """A clean stop leaves fresh hints behind."""
        closing = [*(chain.close() for chain in self._chains.values())]
        await self._store.runtime.tasks.gather(*closing)
        for task in list(self._closing):
            await task.wait()

    def _let_go(self, chain: Chain) -> None:
        self._closing = {task for task in self._closing if not task.done()}
        self._closing.add(self._store.runtime.tasks.spawn(chain.close()))
