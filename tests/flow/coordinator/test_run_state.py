"""The state machine of a run alone: any plan, any order of events."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from arco.flow.coordinator.messages import CheckOutcome, RunStatus, TaskStatus
from arco.flow.coordinator.ports import StoredTask
from arco.flow.coordinator.run_state import RunState, TaskResult, max_attempts, retry_delay_ms
from arco.flow.plan.plan import Plan, RetryPolicy
from tests.flow.coordinator.plans import asset, chain, maker, plan, task

S = TaskStatus


@st.composite
def plans(draw: st.DrawFn, most: int = 12) -> Plan:
    """Any plan: each task waits for some of those before it."""
    count = draw(st.integers(1, most))
    tasks = []
    for number in range(count):
        before = [f"t{n}" for n in range(number)]
        deps = draw(st.lists(st.sampled_from(before), unique=True, max_size=3)) if before else []
        tasks.append(task(f"t{number}", *deps))
    retry_policy = RetryPolicy(times=draw(st.integers(0, 2)))
    return plan(*tasks, makers=[maker(retry=retry_policy)])


class _Driver:
    """Plays a run to its end, one thing after the other, in an order drawn from a seed."""

    def __init__(self, made: Plan, seed: int, bad: dict[str, TaskStatus]) -> None:
        self.plan = made
        self.state = RunState(made)
        self.random = Random(seed)
        self.bad = bad  # how tasks end for good that do not succeed
        self.failures = {each.key: 0 for each in made.tasks}
        self.ready = self.state.start()
        self.running: list[str] = []
        self.cancelled = False

    def play(self, *, losses: bool) -> RunState:
        for _ in range(2_000):
            if self.state.is_done:
                return self.state
            if self.ready and (not self.running or self.random.random() < 0.5):
                self._dispatch()
            elif self.running:
                self._end(losses=losses)
            self._settle()
        raise AssertionError("no end in sight")

    def _dispatch(self) -> None:
        key = self.ready.pop(self.random.randrange(len(self.ready)))
        if self.state.tasks[key].status is not S.READY:
            return
        assert all(self.state.tasks[dep].status is S.SUCCESS for dep in self._deps(key))
        self.state.dispatch(key, self.state.tasks[key].attempt + 1, "w", 0)
        self.running.append(key)

    def _deps(self, key: str) -> tuple[str, ...]:
        return next(each.deps for each in self.plan.tasks if each.key == key)

    def _end(self, *, losses: bool) -> None:
        key = self.running.pop(self.random.randrange(len(self.running)))
        final, draw = self.bad.get(key, S.SUCCESS), self.random.random()
        lost = losses and draw < 0.15 and self.state.tasks[key].attempt <= 3
        failed = (
            not lost and draw < 0.4 and self.failures[key] < self.state.tasks[key].maker.retry.times
        )
        if lost or failed:
            pause = self.state.retry_delay(key, lost=lost, rng=self.random)
            if pause is not None:
                self.failures[key] += failed
                self.state.schedule_retry(key, failed=failed, error="again")
                self.ready += self.state.end_retry_wait(key)
                return
            final = S.CANCELLED if self.state.is_cancelled else S.FAILED
        self.ready += self.state.end_task(key, TaskResult(final))
        if self.random.random() < 0.2:  # reported twice
            self.ready += self.state.end_task(key, TaskResult(final))

    def _settle(self) -> None:
        for each in self.state.unstartable(lambda _key: False):
            self.state.end_task(each.key, TaskResult(each.status, each.reason))


def _expected(made: Plan, bad: dict[str, TaskStatus]) -> dict[str, TaskStatus]:
    """A serial run without anything that passes."""
    ends: dict[str, TaskStatus] = {}
    for each in made.tasks:
        upstream_ends = [ends[dep] for dep in each.deps]
        ends[each.key] = (
            S.SKIPPED if any(end is not S.SUCCESS for end in upstream_ends) else S.SUCCESS
        )
        if ends[each.key] is S.SUCCESS:
            ends[each.key] = bad.get(each.key, S.SUCCESS)
    return ends


@given(made=plans(), seed=st.integers(0, 2**32), losses=st.booleans())
@settings(max_examples=200)
def test_transient_failures_and_losses_do_not_change_the_result(
    made: Plan, seed: int, *, losses: bool
) -> None:
    state = _Driver(made, seed, {}).play(losses=losses)
    assert {key: each.status for key, each in state.tasks.items()} == _expected(made, {})
    assert state.final_status() == (RunStatus.SUCCESS, None)


@given(made=plans(), seed=st.integers(0, 2**32), data=st.data())
@settings(max_examples=200)
def test_a_failure_stops_exactly_its_downstream_tasks(
    made: Plan, seed: int, data: st.DataObject
) -> None:
    keys = [each.key for each in made.tasks]
    chosen = data.draw(st.lists(st.sampled_from(keys), unique=True, max_size=3))
    bad = {key: data.draw(st.sampled_from((S.FAILED, S.BLOCKED))) for key in chosen}
    state = _Driver(made, seed, bad).play(losses=False)
    expected = _expected(made, bad)
    for key, each in state.tasks.items():
        if expected[key] is S.SKIPPED:
            assert each.status in (S.SKIPPED, S.BLOCKED)
        else:
            assert each.status is expected[key]
    assert state.counts() == _counted(state)


@given(made=plans(), seed=st.integers(0, 2**32), when=st.integers(0, 20))
@settings(max_examples=200)
def test_a_cancelled_run_ends_and_begins_nothing_more(made: Plan, seed: int, when: int) -> None:
    driver = _Driver(made, seed, {})
    for _ in range(when):
        if driver.ready:
            driver._dispatch()
        elif driver.running:
            driver._end(losses=True)
        driver._settle()
    driver.state.cancel()
    driver._settle()
    driver.ready.clear()
    state = driver.play(losses=True)
    left = {each.status for each in state.tasks.values()}
    assert left <= {S.SUCCESS, S.CANCELLED, S.FAILED}
    status, _ = state.final_status()
    assert status is (RunStatus.SUCCESS if left == {S.SUCCESS} else RunStatus.CANCELLED)


def _counted(state: RunState) -> dict[str, int]:
    counts: dict[str, int] = {}
    for each in state.tasks.values():
        counts[each.status.value] = counts.get(each.status.value, 0) + 1
    return counts


def test_a_success_overrides_an_earlier_end() -> None:
    state = RunState(chain(1))
    state.start()
    state.dispatch("t0", 1, "w", 0)
    state.end_task("t0", TaskResult(S.CANCELLED))
    state.end_task("t0", TaskResult(S.SUCCESS))
    state.end_task("t0", TaskResult(S.FAILED))
    assert state.tasks["t0"].status is S.SUCCESS
    assert state.is_done


def test_a_late_success_lets_its_downstream_tasks_run() -> None:
    state = RunState(plan(task("a"), task("b"), task("behind", "a", "b")))
    state.start()
    for key in ("a", "b"):
        state.dispatch(key, 1, "w", 0)
    state.end_task("a", TaskResult(S.FAILED, "lease_expired"))
    state.end_task("a", TaskResult(S.SUCCESS))
    assert state.unstartable(lambda _: False) == []
    assert not state.has_failed
    assert state.end_task("b", TaskResult(S.SUCCESS)) == ["behind"]


def test_only_tasks_that_changed_since_a_number_are_returned() -> None:
    state = RunState(chain(3))
    assert [each.key for each in state.changed_since(0)] == ["t2", "t1", "t0"]
    before = state.number
    state.start()
    assert [each.key for each in state.changed_since(before)] == ["t0"]
    assert state.changed_since(state.number) == ()


def test_pauses_grow_to_their_bound_and_jitter_stays_within_its_share() -> None:
    retry_policy = RetryPolicy(times=9, delay_ms=100, factor=2.0, max_ms=1_000)
    assert [retry_delay_ms(retry_policy, n, Random(0)) for n in range(1, 6)] == [
        100,
        200,
        400,
        800,
        1_000,
    ]
    jittery = RetryPolicy(times=9, delay_ms=100, jitter=0.5)
    pauses = [retry_delay_ms(jittery, 1, Random(seed)) for seed in range(200)]
    assert min(pauses) >= 50
    assert max(pauses) <= 150
    assert max(pauses) - min(pauses) > 50


def test_lost_attempts_are_made_again_beyond_the_retries_but_not_for_ever() -> None:
    state = RunState(chain(1))
    state.start()
    assert max_attempts(state.tasks["t0"].maker.retry) == 4
    for attempt in range(1, 4):
        state.dispatch("t0", attempt, "w", 0)
        assert state.retry_delay("t0", lost=True, rng=Random(0)) == 0
        assert state.retry_delay("t0", lost=False, rng=Random(0)) is None
    state.dispatch("t0", 4, "w", 0)
    assert state.retry_delay("t0", lost=True, rng=Random(0)) is None


def test_a_restored_run_has_check_results_with_table_names() -> None:
    made = plan(task("a", maker="a.a"), makers=[asset("a.a", also=["a.b"])])
    checks = tuple(
        CheckOutcome(
            table=table_id,
            table_id=table_id,
            name="some",
            type="ROW_COUNT",
            severity="error",
            passed=True,
        )
        for table_id in ("2", "1")
    )
    for outputs, names in ((("1", "2"), ["a.b", "a.a"]), (("2",), ["2", "1"])):
        state = RunState(made)
        state.restore([StoredTask("a", S.SUCCESS, 1, outputs=outputs, checks=checks)])
        (view,) = state.changed_since(0)
        assert [each.table for each in view.checks] == names
