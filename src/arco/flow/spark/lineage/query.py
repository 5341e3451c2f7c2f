"""What is fetched of one query when Spark reports it; the plan itself is read later."""

from dataclasses import dataclass

from arco.flow.lineage.observation import Dataset, ReadFact
from arco.flow.lineage.plan_tree import Leaf, PlanFacts
from arco.flow.spark.jvm import CallBudget, Java, class_of, first_id, iterate
from arco.flow.spark.lineage.plan_datasets import (
    WRITES,
    PlanOutput,
    leaves_of,
    query_of,
    scans_of,
    target_of,
)

# Operators times columns: the size of a plan's JSON, and the time to make it, grow with this.
MAX_CELLS = 4_000
# The suffix of actions that give rows to Python: collect, first, take, tail, toPandas, toArrow. Others do
# not: count, show, or the values that a pivot looks up.
_TO_PYTHON = "ToPython"
_EXPAND = '"org.apache.spark.sql.catalyst.plans.logical.Expand"'
_MAX_PROJECTIONS = 64


@dataclass(frozen=True)
class ObservedQuery:
    """One query as Spark ran it. Of a write, `text` is the JSON of its plan, unless that is too large."""

    targets: tuple[Dataset, ...] = ()
    text: str | None = None
    facts: PlanFacts | None = None
    reads: tuple[ReadFact, ...] = ()
    sources: tuple[Dataset, ...] = ()  # by the plan, with or without a scan
    has_all_sources: bool = True  # False if the sources of the plan could not be fetched
    number: int = 0  # later queries have larger numbers
    gives_rows: bool = False  # to the program
    spent_ms: float = 0.0
    note: str = ""


@dataclass(frozen=True)
class FetchedPlan:
    """What is fetched of an analyzed plan."""

    targets: tuple[Dataset, ...] = ()
    text: str | None = None
    facts: PlanFacts | None = None
    sources: tuple[Dataset, ...] = ()
    has_all_sources: bool = True
    note: str = ""


def fetch_query(gateway: Java, execution: Java, function: str = "") -> ObservedQuery:
    """A query that has run, whose action Spark calls `function`; problems become notes."""
    budget = CallBudget()
    notes: list[str] = []
    reads: list[ReadFact] = []
    number = 0
    try:
        number = int(execution.id())
        reads = scans_of(execution.executedPlan(), gateway, budget, notes)
    except Exception as problem:  # of Spark or of the gateway; the job itself has succeeded
        notes.append(f"its scans could not be fetched: {_describe(problem)}")
    try:
        plan = fetch_plan(gateway, execution.analyzed(), budget)
    except Exception as problem:
        note = f"its plan could not be fetched: {_describe(problem)}"
        plan = FetchedPlan(has_all_sources=False, note=note)
    return ObservedQuery(
        targets=plan.targets,
        text=plan.text,
        facts=plan.facts,
        reads=tuple(reads),
        sources=plan.sources,
        has_all_sources=plan.has_all_sources,
        number=number,
        gives_rows=not plan.targets and function.endswith(_TO_PYTHON),
        spent_ms=budget.spent_ms(),
        note="; ".join(filter(None, (*notes, plan.note))),
    )


def fetch_plan(
    gateway: Java, plan: Java, budget: CallBudget, *, with_text: bool = False
) -> FetchedPlan:
    """A plan's JSON and the facts that it lacks; of a plan that writes nothing only `with_text`."""
    kind = class_of(plan)
    if kind == "CommandResult":  # the result of a command that was observed already
        return FetchedPlan()
    query = query_of(plan, kind)
    target = target_of(plan, kind) if kind in WRITES else PlanOutput((), frozenset())
    leaves: dict[int, Leaf] = {}
    try:
        leaves.update(leaves_of(query, budget))
    except TimeoutError as problem:
        sources = _sources(leaves)  # those that were fetched in time
        return FetchedPlan(
            target.datasets, sources=sources, has_all_sources=False, note=str(problem)
        )
    sources = _sources(leaves)
    if kind not in WRITES and not with_text:
        return FetchedPlan(sources=sources)
    if _cells(query) > MAX_CELLS:
        return FetchedPlan(
            target.datasets, sources=sources, note="the plan is too large to be read"
        )
    text = str(plan.toJSON())
    facts = PlanFacts(
        leaves=leaves,
        expansions=_expansions_of(gateway.jvm, query, text, budget),
        target=target.datasets[0] if target.datasets else None,
        target_partition_columns=target.partition_columns,
    )
    return FetchedPlan(target.datasets, text, facts, sources)


def _expansions_of(
    jvm: Java, plan: Java, text: str, budget: CallBudget
) -> dict[int, tuple[str, ...]]:
    """The projections of a cube, a rollup or an unpivot, by the id of the expansion's first column.

    The JSON of a plan leaves them out. The expressions of each projection are put in an array and printed.
    """
    if _EXPAND not in text:
        return {}
    expansions: dict[int, tuple[str, ...]] = {}
    waiting = [plan, *iterate(plan.subqueriesAll())]
    array = jvm.org.apache.spark.sql.catalyst.expressions.CreateArray
    while waiting and not budget.is_spent():
        node = waiting.pop()
        waiting.extend(iterate(node.children()))
        key = first_id(node) if class_of(node) == "Expand" else None
        if key is not None and node.projections().size() <= _MAX_PROJECTIONS:
            projections = iterate(node.projections())
            expansions[key] = tuple(str(array(each, False).toJSON()) for each in projections)
    return expansions


def _sources(leaves: dict[int, Leaf]) -> tuple[Dataset, ...]:
    return tuple(dict.fromkeys(each for leaf in leaves.values() for each in leaf.datasets))


def _cells(plan: Java) -> int:
    """An upper bound of a plan's size: its lines as Spark prints it, shortened, times its widest part."""
    lines = str(plan.toString()).count("\n")
    widest = max((node.output().size() for node in _widest_nodes(plan)), default=0)
    return lines * int(widest)


def _widest_nodes(plan: Java) -> list[Java]:
    """The nodes where a plan may be widest: its top and its leaves."""
    leaves = plan.collectLeaves()
    top = plan.children().head() if not plan.children().isEmpty() else plan
    return [top, *(leaves.apply(at) for at in range(min(leaves.size(), 8)))]


def _describe(problem: Exception) -> str:
    return f"{type(problem).__name__}: {str(problem).partition(chr(10))[0][:200]}"
