"""Captures lineage from the plans of the queries that Spark ran for a task.

It promises never to fail, delay or hang a job: Spark's listener bus calls it beside the job, each query has
a limit on the processor time that watching it may cost, and every problem becomes a note and a weaker
soundness. It calls Spark by reflection only, so it is not linked against one release. The plans are read in
`flow.lineage`, after the task. These modules import pyspark,
`flow.lineage` and `core`.
"""

from arco.flow.spark.lineage.capture import Capture, observe_plan

__all__ = ["Capture", "observe_plan"]
