"""Queries: what is fetched of one while Spark waits for nothing; it is read later."""

from dataclasses import dataclass

from arco.flow.lineage.facts import Leaf, PlanFacts
from arco.flow.lineage.observation import Dataset, ReadFact
from arco.flow.spark.lineage.budget import Budget
from arco.flow.spark.lineage.expansions import expansions_of
from arco.flow.spark.lineage.java import Java, kind_of
from arco.flow.spark.lineage.relations import WRITES, Target, leaves_of, query_of, target_of
from arco.flow.spark.lineage.scans import reads_of

# Operators times columns: what the JSON of a plan grows with, and the time to make it.
MOST_CELLS = 4_000
# How actions are called that give rows to Python: collect, first, take, tail, toPandas, toArrow. Others do
# not: count, show, or what a pivot looks up for itself.
_TO_PYTHON = "ToPython"


@dataclass(frozen=True)
class Query:
    """One query as Spark ran it. Of one that writes, `text` is its plan, unless that is too large."""

    targets: tuple[Dataset, ...] = ()
    text: str | None = None
    facts: PlanFacts | None = None
    reads: tuple[ReadFact, ...] = ()
    sources: tuple[Dataset, ...] = ()  # by the plan, whether or not a scan of them was seen
    has_all_sources: bool = True  # unless the plan could not be asked for them
    number: int = 0  # queries that were asked for later have larger ones
    gives_rows: bool = False  # to the program that asked for them
    spent_ms: float = 0.0
    note: str = ""


def fetch(gateway: Java, execution: Java, function: str = "") -> Query:
    """What there is to know of a query that has run; trouble is noted, never raised.

    `function` is how Spark calls the action that ran it.
    """
    budget = Budget()
    notes: list[str] = []
    reads: list[ReadFact] = []
    plan = Plan()
    number = 0
    try:
        number = int(execution.id())
        reads = reads_of(execution.executedPlan(), gateway, budget, notes)
    except Exception as problem:  # of Spark or of the way to it; the job itself is done and well
        notes.append(f"what was read could not be asked for: {_brief(problem)}")
    try:
        plan = fetch_plan(gateway, execution.analyzed(), budget)
    except Exception as problem:
        note = f"the plan could not be asked for: {_brief(problem)}"
        plan = Plan(has_all_sources=False, note=note)
    return Query(
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


@dataclass(frozen=True)
class Plan:
    """What is fetched of an analyzed plan."""

    targets: tuple[Dataset, ...] = ()
    text: str | None = None
    facts: PlanFacts | None = None
    sources: tuple[Dataset, ...] = ()
    has_all_sources: bool = True
    note: str = ""


def fetch_plan(gateway: Java, plan: Java, budget: Budget, *, whole: bool = False) -> Plan:
    """A plan's JSON and what that lacks; of one that writes nothing only with `whole`."""
    kind = kind_of(plan)
    if kind == "CommandResult":  # it shows what a command has done, which was seen already
        return Plan()
    query = query_of(plan, kind)
    target = target_of(plan, kind) if kind in WRITES else Target((), frozenset())
    leaves: dict[int, Leaf] = {}
    try:
        leaves.update(leaves_of(query, budget))
    except TimeoutError as problem:
        sources = _sources(leaves)  # of those that were asked in time
        return Plan(target.datasets, sources=sources, has_all_sources=False, note=str(problem))
    sources = _sources(leaves)
    if kind not in WRITES and not whole:
        return Plan(sources=sources)
    if _cells(query) > MOST_CELLS:
        return Plan(target.datasets, sources=sources, note="the plan is too large to be read")
    text = str(plan.toJSON())
    facts = PlanFacts(
        leaves=leaves,
        expansions=expansions_of(gateway.jvm, query, text, budget),
        target=target.datasets[0] if target.datasets else None,
        target_partition_columns=target.partition_columns,
    )
    return Plan(target.datasets, text, facts, sources)


def _sources(leaves: dict[int, Leaf]) -> tuple[Dataset, ...]:
    return tuple(dict.fromkeys(each for leaf in leaves.values() for each in leaf.datasets))


def _cells(plan: Java) -> int:
    """How large a plan is, at most: its lines as Spark prints it, shortened, times its widest part."""
    lines = str(plan.toString()).count("\n")
    widest = max(
        (node.output().size() for node in _ends(plan)),
        default=0,
    )
    return lines * int(widest)


def _ends(plan: Java) -> list[Java]:
    """Where a plan may be widest: at its top and at its leaves."""
    leaves = plan.collectLeaves()
    top = plan.children().head() if not plan.children().isEmpty() else plan
    return [top, *(leaves.apply(at) for at in range(min(leaves.size(), 8)))]


def _brief(problem: Exception) -> str:
    return f"{type(problem).__name__}: {str(problem).partition(chr(10))[0][:200]}"
