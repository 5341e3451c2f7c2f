"""When Arco itself is away, or no Spark can be started: an attempt is given back, not counted as failed.

It is nobody's fault. Whoever tells the book of runs waits until that is there again; a Spark that does not
start is tried some more times, and then the task fails with the reason. Only what Iceberg's client says of
a catalog counts: a database of the user's own that cannot be reached is the user's affair. Of a store that
is full somebody has to hear, so that it counts as a failure.
"""

from arco.core.errors import ArcoError, StoreFull, Unavailable, Unknown
from arco.flow.spark.jvm import java_errors, java_message

_NO_ANSWER = "org.apache.iceberg.exceptions.RESTException"
_NOT_NOW = (
    "org.apache.iceberg.exceptions.CommitStateUnknownException",
    "org.apache.iceberg.exceptions.ServiceUnavailableException",
)


def away(problem: BaseException) -> ArcoError | None:
    """Why Arco was away, or Spark, if that is what a problem comes from."""
    if isinstance(problem, Unavailable | Unknown):
        return None if isinstance(problem, StoreFull) else problem
    thrown = java_errors(problem)
    # With a cause it tells of the way to the catalog, without one of what the catalog has said.
    is_lost = _NO_ANSWER in thrown[:-1]
    if not is_lost and not any(each in thrown for each in _NOT_NOW):
        return None
    said = Unavailable(f"Arco was away while this was worked on: {java_message(problem)}")
    said.__cause__ = problem
    return said
