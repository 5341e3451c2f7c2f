"""The checks of a store: one at a time, each on probe objects that are deleted afterwards.

It uses the store as processes do: it writes in the role `api`, and lists and deletes in the role
`janitor`. An identity on a cloud may lack some of these rights: that is reported, and few probes remain.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from statistics import median

from arco.core.errors import ArcoError, Denied, NotFound, Unavailable
from arco.core.ids import new_ulid
from arco.core.json import encode
from arco.core.runtime import Runtime
from arco.core.scope import Scope
from arco.server.finding import NO_BUCKET, DoctorFinding, FindingStatus, error_finding, failed, ok
from arco.storage.backend import Backend, ObservedBackend
from arco.storage.local import LocalBackend
from arco.storage.open import PROBE_KEY, open_store, race_put_if_absent
from arco.storage.retry import StoreRetryPolicy
from arco.storage.roles import Role
from arco.storage.store import CLOCK_KEY as CLOCK
from arco.storage.store import Store

Check = Callable[[], Awaitable[DoctorFinding]]

_FOLDER = "_probe/"
_RACERS = 16
_CREATES = 50
_CREATES_WITHOUT_DELETE = 5  # where probes cannot be deleted
_LOCAL_MISSES = 300
_REMOTE_MISSES = 10
_CLOCKS_APART_MS = 60_000
_ABANDONED_MS = 3_600_000

_INCONSISTENT = "This store is not consistent: do not keep anything in it."

# A user is waiting: give up sooner than a server would.
_RETRY = StoreRetryPolicy(attempts=3, budget_ms=15_000)


class RequestCounter:
    """Counts the requests to the store, and remembers the objects that were created."""

    def __init__(self) -> None:
        self.count = 0
        self.created: set[str] = set()

    def request(self, verb: str, key: str, outcome: str, ms: float) -> None:  # noqa: ARG002
        self.count += 1
        if verb == "create" and outcome == "ok":
            self.created.add(key)


class StoreCheck:
    """The checks of one store; `location` is its address for messages."""

    def __init__(self, backend: Backend, runtime: Runtime, scope: Scope, location: str) -> None:
        self._runtime = runtime
        self._scope = scope
        self._location = location
        self._local = backend if isinstance(backend, LocalBackend) else None
        self._requests = RequestCounter()
        self._backend = ObservedBackend(backend, self._requests, runtime.clock)
        self._api = Store(self._backend, runtime, scope=scope, role=Role.API, retry=_RETRY)
        self._janitor = Store(self._backend, runtime, scope=scope, role=Role.JANITOR, retry=_RETRY)
        self._run_id = new_ulid(runtime)
        self._may_delete = True

    async def findings(self) -> AsyncIterator[DoctorFinding]:
        """Every check in turn; the first two decide whether the others make sense."""
        sound = True
        for name, check in self._essential():
            if sound:
                finding = await self._guard(name, check)
                sound = finding.status is not FindingStatus.FAILED
                yield finding
        if sound:
            for name, check in self._thorough():
                yield await self._guard(name, check)
        if self._requests.created:
            yield await self._guard("clean-up", self._clean_up)
        yield ok("requests", f"{self._requests.count} made", requests=self._requests.count)

    async def _guard(self, name: str, check: Check) -> DoctorFinding:
        try:
            return await check()
        except ArcoError as problem:
            return error_finding(name, problem, is_local=self._local is not None)

    def _essential(self) -> list[tuple[str, Check]]:
        return [("answers", self._answers), ("put-if-absent", self._put_if_absent)]

    def _thorough(self) -> list[tuple[str, Check]]:
        return [
            ("race", self._race),
            ("delete", self._delete),
            ("durable create", self._durable_create),
            ("missing get", self._missing_get),
            ("range read", self._range_read),
            ("listing", self._listing),
            ("clock", self._clock),
        ]

    async def _answers(self) -> DoctorFinding:
        started = self._now()
        try:
            await self._api.find(PROBE_KEY)
        except Unavailable as problem:
            # The message names a probe object; the user needs the address of the store.
            raise Unavailable(f"{problem}, at {self._location}") from problem
        ms = self._now() - started
        return ok("answers", f"in {_ms(ms)}", answer_ms=ms)

    async def _put_if_absent(self) -> DoctorFinding:
        try:
            await open_store(
                self._backend, self._runtime, role=Role.API, scope=self._scope, retry=_RETRY
            )
        except NotFound:
            # The object was to be created, so it is the bucket that was not found.
            figure = f"the bucket or container was not found: {self._location}"
            return failed("put-if-absent", figure, NO_BUCKET)
        return ok("put-if-absent", "honoured")

    async def _race(self) -> DoctorFinding:
        await race_put_if_absent(self._api, _RACERS)
        return ok("race", f"1 winner of {_RACERS}", racers=_RACERS, winners=1)

    async def _delete(self) -> DoctorFinding:
        key = await self._create("delete")
        try:
            await self._janitor.delete(key)
            await self._janitor.delete(key)
        except Denied:
            self._may_delete = False
            advice = "Fine for an identity of the API; only the janitor deletes."
            return DoctorFinding("delete", FindingStatus.WARNING, "not allowed", advice)
        if await self._janitor.find(key) is not None:
            return failed("delete", "a deleted object is still there", _INCONSISTENT)
        return ok("delete", "done, and done twice")

    async def _durable_create(self) -> DoctorFinding:
        took: list[float] = []
        for number in range(_CREATES if self._may_delete else _CREATES_WITHOUT_DELETE):
            started = self._now()
            await self._create(f"create-{number:02d}")
            took.append(self._now() - started)
        p50 = median(took)
        return ok("durable create", f"p50 {_ms(p50)} of {len(took)}", p50_ms=p50, max_ms=max(took))

    async def _missing_get(self) -> DoctorFinding:
        took: list[float] = []
        for number in range(_LOCAL_MISSES if self._local else _REMOTE_MISSES):
            started = self._now()
            probe = await self._api.find(self._key(f"missing-{number}"))
            took.append(self._now() - started)
            if probe is not None:
                return failed("missing get", "an object that was never created", _INCONSISTENT)
        p50 = median(took)
        figure = f"p50 {p50 * 1000:.0f} µs" if p50 < 1 else f"p50 {_ms(p50)}"
        return ok("missing get", figure, p50_us=p50 * 1000)

    async def _range_read(self) -> DoctorFinding:
        body = encode({"create_id": new_ulid(self._runtime), "ramp": list(range(2_000))})
        key = self._key("range")
        await self._api.create(key, body)
        middle = await self._api.get_range(key, 1_000, 500)
        tail = await self._api.get_range(key, len(body) - 10, 500)
        if middle != body[1_000:1_500] or tail != body[-10:]:
            return failed("range read", "other bytes than were written", _INCONSISTENT)
        return ok("range read", f"500 of {len(body)} bytes")

    async def _listing(self) -> DoctorFinding:
        # In byte order: '-' before '.' before '0' before 'Z' before '_' before 'a'.
        created = [await self._create(f"list{mark}") for mark in ("-", ".", "0", "Z", "_", "a")]
        try:
            listed = [meta.key async for meta in self._janitor.list(_FOLDER)]
        except Denied:
            advice = "Fine for an identity of the API; only the janitor and the compactor list."
            return DoctorFinding("listing", FindingStatus.WARNING, "not allowed", advice)
        if listed != sorted(listed, key=str.encode):
            return failed("listing", "not in the order of the keys' bytes", _INCONSISTENT)
        if not set(created) <= set(listed):
            return failed("listing", "objects that were created are missing", _INCONSISTENT)
        return ok("listing", f"{len(listed)} keys, in order", keys=len(listed))

    async def _clock(self) -> DoctorFinding:
        key = await self._create("clock")
        meta = await self._api.head(key)
        apart = meta.modified_ms - self._runtime.clock.now_ms()
        figure = f"{abs(apart) / 1000:.1f} s {'ahead' if apart > 0 else 'behind'} of this machine"
        if abs(apart) > _CLOCKS_APART_MS:
            advice = "Set this machine's clock (with NTP); signed requests may be refused."
            return DoctorFinding(
                "clock", FindingStatus.WARNING, figure, advice, {"apart_ms": apart}
            )
        return ok("clock", f"{abs(apart) / 1000:.1f} s apart", apart_ms=apart)

    async def _clean_up(self) -> DoctorFinding:
        prefix = self._scope.prefix
        probes = {key.removeprefix(prefix) for key in self._requests.created} - {PROBE_KEY}
        left = f"{len(probes)} probes stay below {_FOLDER}"
        if not self._may_delete:
            return DoctorFinding(
                "clean-up", FindingStatus.WARNING, left, "Run it once as the janitor."
            )
        for key in sorted(probes):
            await self._janitor.delete(key)
        old = await self._sweep()
        scratch = self._local.swept if self._local else 0
        figure = f"{len(probes)} probes of ours, {old} of earlier runs, {scratch} scratch files"
        return ok("clean-up", figure, probes=len(probes), old_probes=old, scratch_files=scratch)

    async def _sweep(self) -> int:
        """Delete the probes of earlier runs that were interrupted; how many."""
        now = self._runtime.clock.now_ms()
        try:
            old = [
                meta.key
                async for meta in self._janitor.list(_FOLDER)
                if meta.key not in (PROBE_KEY, CLOCK) and now - meta.modified_ms > _ABANDONED_MS
            ]
        except Denied:
            return 0
        for key in old:
            await self._janitor.delete(key)
        return len(old)

    async def _create(self, name: str) -> str:
        key = self._key(name)
        await self._api.create(key, encode({"format": 1, "create_id": new_ulid(self._runtime)}))
        return key

    def _key(self, name: str) -> str:
        return f"{_FOLDER}doctor-{self._run_id}-{name}.json"

    def _now(self) -> float:
        return self._runtime.clock.elapsed_ms()


def _ms(ms: float) -> str:
    return f"{ms:.2f} ms" if ms < 10 else f"{ms:.0f} ms"
