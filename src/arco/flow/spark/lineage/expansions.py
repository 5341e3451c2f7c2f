"""Expansions: the projections of a cube, a rollup or an unpivot, which the plan's JSON leaves out."""

from arco.flow.spark.lineage.budget import Budget
from arco.flow.spark.lineage.java import Java, each, first_id, kind_of

_NAME = '"org.apache.spark.sql.catalyst.plans.logical.Expand"'
_MOST = 64


def expansions_of(jvm: Java, plan: Java, text: str, budget: Budget) -> dict[int, tuple[str, ...]]:
    """The JSON of each projection, by the id of the expansion's first column.

    One call for each projection: its expressions are put in an array, which is printed.
    """
    if _NAME not in text:
        return {}
    found: dict[int, tuple[str, ...]] = {}
    waiting = [plan, *each(plan.subqueriesAll())]
    array = jvm.org.apache.spark.sql.catalyst.expressions.CreateArray
    while waiting and not budget.is_spent():
        node = waiting.pop()
        waiting.extend(each(node.children()))
        key = first_id(node) if kind_of(node) == "Expand" else None
        if key is not None and node.projections().size() <= _MOST:
            projections = each(node.projections())
            found[key] = tuple(str(array(one, False).toJSON()) for one in projections)
    return found
