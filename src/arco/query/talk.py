"""Talks: one query's exchange with a worker, in threads and within its time."""

from arco.core.errors import Corrupt, Invalid, Unavailable
from arco.core.tasks import Tasks
from arco.ledger.envelope import RowCount
from arco.query.limits import Limits
from arco.query.process import Died, Process
from arco.query.wire import (
    Asked,
    Broken,
    Expanded,
    FoldTail,
    Lacks,
    Needs,
    Offer,
    Plan,
    Refused,
    Rows,
    Run,
    Segments,
    StateFile,
)

_TOO_MUCH = (
    "the query needs more memory than is allowed, or is nested too deeply: select less, or split it"
)


class Talk:
    """Asks one worker. `is_sound` tells whether it can be asked by others afterwards."""

    def __init__(self, tasks: Tasks, limits: Limits, process: Process) -> None:
        self._tasks = tasks
        self._limits = limits
        self._process = process
        self.is_sound = True

    async def needs(self, sql: str) -> Needs:
        """What a query reads."""
        said, _ = await self._compute(Plan(sql=sql))
        return said if isinstance(said, Needs) else Needs(scans=())

    async def lacks(self, keys: tuple[str, ...]) -> tuple[str, ...]:
        """What must be sent."""
        said, _ = await self._hand(Offer(keys=keys))
        return said.keys if isinstance(said, Lacks) else ()

    async def send(self, message: StateFile | Rows, data: bytes) -> None:
        """Send data."""
        await self._hand(message, data)

    async def expand(self, message: Segments, data: bytes) -> tuple[RowCount, ...]:
        """Send segments of the ledger; how many rows each of them makes."""
        said, _ = await self._hand(message, data)
        return said.counts if isinstance(said, Expanded) else ()

    async def run(self, message: Run | FoldTail) -> bytes:
        """The result as a stream of Arrow."""
        _, data = await self._compute(message)
        return data

    async def _compute(self, message: Plan | Run | FoldTail) -> tuple[object, bytes]:
        """Ask for something that may take as much as the query wants."""
        try:
            return await self._tasks.deadline(self._limits.run_ms, self._ask(message))
        except TimeoutError as problem:
            seconds = self._limits.run_ms / 1000
            raise Invalid(f"the query took longer than {seconds:g} s: select less") from problem
        except Died as problem:
            raise Invalid(_TOO_MUCH) from problem

    async def _hand(
        self, message: Offer | StateFile | Rows | Segments, data: bytes | None = None
    ) -> tuple[object, bytes]:
        """Hand something over, which does not depend on the query's text."""
        try:
            return await self._ask(message, data)
        except Died as problem:
            raise Unavailable(
                "the tables that the query reads do not fit into the memory of its process, or it was ended"
            ) from problem

    async def _ask(self, message: Asked, data: bytes | None = None) -> tuple[object, bytes]:
        self.is_sound = False
        said, result = await self._tasks.in_thread(lambda: self._process.ask(message, data))
        self.is_sound = True
        if isinstance(said, Refused):
            raise Invalid(said.reason)
        if isinstance(said, Broken):
            raise Corrupt(said.reason)
        return said, result
