"""Small plans by hand, in the JSON that Spark writes."""

import json
from typing import Any

Flat = list[dict[str, Any]]


def node(kind: str, *children: Flat, **fields: Any) -> Flat:
    """A node and what is below it."""
    root = {"class": f"org.apache.spark.{kind}", "num-children": len(children), **fields}
    return [root, *(each for child in children for each in child)]


def attribute(name: str, number: int) -> Flat:
    return node(
        "AttributeReference", name=name, dataType="long", exprId={"id": number, "jvmId": "j"}
    )


def literal(value: object) -> Flat:
    return node("Literal", value=str(value), dataType="string")


def alias(child: Flat, name: str, number: int) -> Flat:
    return node("Alias", child, child=0, name=name, exprId={"id": number, "jvmId": "j"})


def relation(*columns: Flat) -> Flat:
    return node("LogicalRelation", relation=None, output=list(columns))


def project(child: Flat, *columns: Flat) -> Flat:
    return node("Project", child, projectList=list(columns), child=0)


def where(child: Flat, condition: Flat) -> Flat:
    return node("Filter", child, condition=condition, child=0)


def text(flat: Flat) -> str:
    return json.dumps(flat)
