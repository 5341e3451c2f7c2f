"""Java: objects of Spark's own, asked by reflection, in as few calls as can be.

Each call costs a tenth of a millisecond, so whole collections are printed at once where that tells enough.
"""

from collections.abc import Iterator
from typing import Any

Java = Any  # an object of the JVM: it has whatever methods its class has there


def kind_of(node: Java) -> str:
    """The class of an object, without its package."""
    return str(node.getClass().getSimpleName())


def each(collection: Java) -> Iterator[Java]:
    """The items of a collection of Scala."""
    items = collection.iterator()
    while items.hasNext():
        yield items.next()


def texts(collection: Java) -> list[str]:
    """The items of a collection of Scala, printed in one call; no item may hold a line break."""
    text = str(collection.mkString("\n"))
    return text.split("\n") if text else []


def option(value: Java) -> Java | None:
    """What is in an Option of Scala, if anything is."""
    return value.get() if value.isDefined() else None


def first_id(node: Java) -> int | None:
    """The id of an operator's first output column."""
    output = node.output()
    return None if output.isEmpty() else int(output.head().exprId().id())
