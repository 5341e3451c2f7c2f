"""Lineage by execution: what Spark's own plans say of a task's queries, seen from outside.

It promises never to fail, hold up or hang a job: Spark's listener bus calls it beside the job, each
query has a bound on the time that it may cost, and whatever goes wrong becomes a note and a weaker mark.
It asks Spark by reflection alone, so no release of Spark can break its linkage. The plans are read in
`flow.lineage`, once the task is done. These modules import pyspark.
"""

from arco.flow.spark.lineage.capture import Capture, plan_of

__all__ = ["Capture", "plan_of"]
