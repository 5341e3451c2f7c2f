"""Opaque: operators that run a function over whole frames. What it does with its columns is not known."""

from arco.flow.lineage.derived import Column, Columns, together
from arco.flow.lineage.tree import Node
from arco.flow.lineage.walk import Walk

MADE_BY_CODE = frozenset(
    (
        *("MapInPandas", "MapInArrow", "PythonMapInArrow"),
        *("FlatMapGroupsInPandas", "FlatMapGroupsInArrow"),
        *("FlatMapCoGroupsInPandas", "FlatMapCoGroupsInArrow"),
        *("ScriptTransformation", "ScriptInputOutputSchema"),
        *("FlatMapGroupsInPandasWithState", "TransformWithStateInPandas"),
        *("MapPartitions", "MapElements", "MapGroups", "CoGroup", "AppendColumns"),
        *("SerializeFromObject", "DeserializeToObject", "TypedFilter"),
    )
)


def made_by_code(walk: Walk, node: Node, inputs: tuple[Columns, ...]) -> Columns:
    """Every output depends on every input, as far as anybody can tell."""
    walk.weaken("opaque", f"{node.kind} runs a function over whole frames")
    scope = walk.scope(*inputs)
    walk.influence(walk.values(node.trees("groupingAttributes"), scope), "GROUP_BY")
    for field, columns in zip(("leftGroupingLen", "rightGroupingLen"), inputs, strict=False):
        count = node.fields.get(field)
        if isinstance(count, int):
            walk.influence((column.derived for column in columns[:count]), "GROUP_BY")
    return made_of_all(node, inputs)


def made_of_all(node: Node, inputs: tuple[Columns, ...]) -> Columns:
    """Its outputs, each made of all inputs in a way that is not known."""
    derived = together(column.derived for columns in inputs for column in columns).by("UNKNOWN")
    told = ("output", "outputObjAttr", "serializer", "newColumnsSerializer")
    outputs = next(filter(None, map(node.trees, told)), ())
    return tuple(Column(each.number, each.name, derived) for each in outputs)
