"""A book that dies at any of its calls, and is opened again: nothing acknowledged is forgotten."""

from arco.flow.coordinator.messages import RunRequest
from tests.flow.coordinator.crashing import CHANGES, Fate, Service
from tests.flow.coordinator.plans import asset, maker, plan, task, wish
from tests.flow.coordinator.workers import Crew, is_good
from tests.ledger.simulated import Calm, simulate


def _wish() -> RunRequest:
    tasks = (
        task("a@1", maker="a", partition="ds=1"),
        task("a@2", maker="a", partition="ds=2"),
        task("report", "a@1", "a@2"),
    )
    return wish(plan(*tasks, makers=[asset("a"), maker()], pools={"default": 2}))


def _trial(deaths: list[tuple[int, bool]]) -> tuple[list[str], str]:
    """The calls of the last life, and what is wrong."""
    fate = Fate(deaths)
    calls: list[str] = []
    wrong: list[str] = []

    async def tell(calm: Calm) -> None:
        service = Service(calm, fate)
        service.start()
        crew = Crew(service, _wish())
        view = await crew.run()
        calls.extend(fate.calls)
        told = await service.ask(lambda rig: rig.told(view.run_id))
        log = crew.log
        if not is_good(view):
            wrong.append(f"the run ended as {view.status} {view.error}")
        if set(told.values()) != {"SUCCESS"}:
            wrong.append(f"the ledger says {told}")
        if log.most_at_once > 1 or log.most_by_pool > 2:
            wrong.append(f"too many at once: {log}")
        if log.began_early:
            wrong.append(f"began before what it waits for: {log.began_early}")
        published = [each.task for each in service.chains.published("a")]
        if len(published) != 2 or len(set(published)) != 2:
            wrong.append(f"published {published}")
        if deaths and service.lives == 1:
            wrong.append("nobody died")

    simulate(tell)
    return calls, "; ".join(wrong)


def test_a_run_survives_the_death_of_its_book_at_any_call() -> None:
    calls, wrong = _trial([])
    assert not wrong
    assert calls.count("create") >= 10
    points = [
        (number, after)
        for number, verb in enumerate(calls, start=1)
        for after in ((False, True) if verb in CHANGES else (False,))
    ]
    for point in points:
        _, wrong = _trial([point])
        assert not wrong, f"{point} ({calls[point[0] - 1]}): {wrong}"


def test_a_run_survives_deaths_that_follow_each_other() -> None:
    for number in range(3, 40, 4):
        _, wrong = _trial([(number, True), (7, False), (number // 2 + 3, True)])
        assert not wrong, f"{number}: {wrong}"
