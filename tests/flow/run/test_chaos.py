"""Any plan, with failures, losses, words said twice, deaths of the book, and a store in bad weather."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from arco.flow.plan.plan import Plan, PlannedTask, RetryPolicy
from arco.flow.run.wire import LeasedTask, RunStatus
from tests.flow.run.crew import BADLY, LATE, SILENTLY, TWICE, WELL, Crew
from tests.flow.run.mortal import Fate, Service
from tests.flow.run.plans import asset, maker, plan, task, wish
from tests.ledger.simulated import Calm, simulate
from tests.sim.faults import MILD

_TIMES = 2
_SLOTS = 2


def _plan(random: Random) -> Plan:
    """Some tasks that write partitions of one table, some that write none."""
    tasks: list[PlannedTask] = []
    for number in range(random.randrange(2, 7)):
        before = [each.key for each in tasks]
        deps = random.sample(before, random.randrange(min(3, len(before)) + 1))
        if random.random() < 0.5:
            made = task(f"t@{number}", *deps, maker="t", partition=f"ds={number}")
        else:
            made = task(f"x{number}", *deps)
        tasks.append(made)
    again = RetryPolicy(times=_TIMES, delay_ms=200)
    makers = [asset("t", retry=again), maker(retry=again)]
    return plan(*tasks, makers=makers, pools={"default": _SLOTS})


def _story(seed: int, hows: tuple[str, ...], kills: int, wrong: list[str]) -> object:
    random = Random(seed)
    made = _plan(random)

    def script(leased: LeasedTask) -> str:
        # At most one bad deed a task, so that its attempts last.
        return random.choice(hows) if leased.attempt == 1 else WELL

    async def tell(calm: Calm) -> None:
        service = Service(calm, Fate())
        service.start()
        calm.runtime.tasks.spawn(_kill(service, random, kills))
        crew = Crew(service, wish(made), script)
        view = await crew.run(workers=3)
        told = await crew.patiently(lambda rig: rig.told(view.run_id))
        at_work = await service.ask(_at_work)
        if view.status is not RunStatus.SUCCESS or set(told.values()) != {"SUCCESS"}:
            wrong.append(f"{view.status} {view.error} {told}")
        if crew.log.began_early:
            wrong.append(f"began early: {crew.log.began_early}")
        published = [each.task for each in service.chains.published("t")]
        wanted = sum(each.maker == "t" for each in made.tasks)
        if len(published) != wanted or len(set(published)) != wanted:
            wrong.append(f"published {published}")
        if at_work:
            wrong.append(f"{at_work} slots are held for ever")
        if set(hows) <= {WELL, BADLY, TWICE} and crew.log.most_by_pool > _SLOTS:
            wrong.append(f"{crew.log.most_by_pool} at once in a pool of {_SLOTS}")

    return tell


async def _at_work(rig: object) -> int:
    return rig.book.at_work  # type: ignore[attr-defined, no-any-return]


async def _kill(service: Service, random: Random, kills: int) -> None:
    for _ in range(kills):
        await service.runtime.clock.sleep(random.random() * 4_000)
        service.kill()


@given(seed=st.integers(0, 2**32))
@settings(max_examples=15)
def test_failures_losses_and_deaths_change_nothing_about_the_end(seed: int) -> None:
    wrong: list[str] = []
    hows = (WELL, WELL, BADLY, SILENTLY, LATE, TWICE)
    simulate(_story(seed, hows, 2, wrong), hours=48, seed=seed)  # type: ignore[arg-type]
    assert not wrong


@given(seed=st.integers(0, 2**32))
@settings(max_examples=15)
def test_a_store_in_bad_weather_changes_nothing_about_the_end(seed: int) -> None:
    wrong: list[str] = []
    story = _story(seed, (WELL, BADLY, TWICE), 1, wrong)
    simulate(story, hours=48, seed=seed, faults=MILD)  # type: ignore[arg-type]
    assert not wrong
