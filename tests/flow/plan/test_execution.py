"""A plan that was carried out in its order leaves nothing to do, whatever the project and its failures."""

from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from arco.core.errors import Invalid
from arco.flow.partition import (
    Daily,
    Hourly,
    Mapping,
    Monthly,
    Partitions,
    Static,
    all_partitions,
    default_mapping,
    identity,
    latest,
    offset,
    roll_up,
    window,
)
from arco.flow.plan.plan import Plan
from tests.flow.plan.model import PlanningSetup

NOW = datetime(2026, 2, 2, 4, tzinfo=UTC)
HEAD = """
    from arco.flow.partition import all_partitions, latest, offset, roll_up, window
    source("raw.days", partitions=Daily("ds", start="2026-01-25"))
    source("raw.whole")
"""
CUTS: dict[str, Partitions] = {
    "": Partitions(),
    'Daily("ds", start="2026-01-25")': Partitions(Daily("ds", "2026-01-25")),
    'Hourly("hour", start="2026-01-31T18")': Partitions(Hourly("hour", "2026-01-31T18")),
    'Monthly("month", start="2025-12")': Partitions(Monthly("month", "2025-12")),
    '[Daily("ds", start="2026-01-27"), Static("r", ["eu", "us"])]': Partitions(
        [Daily("ds", "2026-01-27"), Static("r", ["eu", "us"])]
    ),
    'Static("r", ["eu", "us"])': Partitions(Static("r", ["eu", "us"])),
}
MAPPINGS: dict[str, Mapping] = {
    "identity": identity,
    "window(3)": window(3),
    "offset(-2)": offset(-2),
    "roll_up": roll_up,
    "all_partitions": all_partitions,
    "latest": latest,
}


def fitting(of: Partitions, reads: Partitions) -> list[str]:
    """How mappings that work between two assets are written."""
    options = []
    for text, mapping in MAPPINGS.items():
        try:
            mapping.check(of, reads)
        except Invalid:
            continue
        options.append(f", mapping={text}")
    try:
        default_mapping(of, reads)
    except Invalid:
        return options
    return ["", *options]


@st.composite
def projects(draw: st.DrawFn) -> str:
    """Some assets, each of which reads from some before it, from sources, or from its own past."""
    tables = {"raw.days": 'Daily("ds", start="2026-01-25")', "raw.whole": ""}
    lines = [HEAD]
    for number in range(draw(st.integers(1, 6))):
        cut = draw(st.sampled_from(sorted(CUTS)))
        inputs = []
        names = draw(st.lists(st.sampled_from(sorted(tables)), min_size=1, max_size=3))
        for at, name in enumerate(names):
            mapping_option = draw(st.sampled_from(fitting(CUTS[cut], CUTS[tables[name]])))
            inputs.append(f'p{at}=table("{name}"{mapping_option})')
        if cut.startswith("Daily") and draw(st.booleans()):
            inputs.append(f'before=table("t.a{number}", offset=-1)')
        tables[f"t.a{number}"] = cut
        options = f", partitions={cut}" if cut else ""
        lines.append(
            f'    @asset("t.a{number}"{options})\n    def a{number}({", ".join(inputs)}): pass'
        )
    return "\n".join(lines)


def check(planned: Plan) -> None:
    assert len({task.key for task in planned.tasks}) == len(planned.tasks)
    keys = {task.key for task in planned.tasks}
    assert all(keys.issuperset(task.deps) for task in planned.tasks)


@settings(max_examples=40, deadline=None)
@given(projects(), st.lists(st.integers(0, 200), max_size=4), st.integers(0, 7))
def test_planning_again_after_a_plan_gives_nothing(text: str, bad: list[int], changed: int) -> None:
    with TemporaryDirectory() as folder:
        setup = PlanningSetup(Path(folder), {"pipelines/p.py": text}, now=NOW)
        setup.lake.fill("raw.whole", "")
        setup.lake.fill("raw.days", *(f"ds=2026-01-{day}" for day in range(25, 32)))

        first = setup.plan()
        check(first)
        failing = {first.tasks[number % len(first.tasks)].key for number in bad if first.tasks}
        setup.lake.run(setup.project, first, failing)

        second = setup.plan()
        check(second)
        assert failing <= {task.key for task in second.tasks} | {
            each.key for each in second.waiting
        }
        setup.lake.run(setup.project, second)
        last = setup.plan()
        assert last.tasks == ()
        assert last.up_to_date + len(last.waiting) == len(first.tasks) + len(first.waiting)

        setup.lake.fill("raw.days", f"ds=2026-01-{25 + changed}")
        setup.lake.run(setup.project, setup.plan())
        assert setup.plan().tasks == ()
