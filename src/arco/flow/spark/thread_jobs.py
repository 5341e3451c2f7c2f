"""The jobs of a thread: all that an attempt has Spark do, also without a query, as `df.rdd.foreach` does.

A session stops its queries alone. But each job bears the tags of the thread that began it, and by such a
tag the others are stopped too. The thread also has a pool of its own in Spark, so that a long task does
not keep short ones waiting until it is through. Spark forgets no pool, hence they are named after slots, of
which there are few, and not after attempts.
"""

from contextlib import suppress

from pyspark.sql import SparkSession

from arco.flow.spark.jvm import session_tag

POOL = "spark.scheduler.pool"


class ThreadJobs:
    """The jobs that this thread begins from now until it is closed, which is for the same thread to do."""

    def __init__(self, session: SparkSession, pool: str) -> None:
        self._context = session.sparkContext
        self._tag = f"arco-attempt-{session_tag(session)}"
        self._context.addJobTag(self._tag)
        self._context.setInterruptOnCancel(True)
        self._context.setLocalProperty(POOL, pool)

    def stop(self) -> None:
        """End those that are under way; from any thread."""
        self._context.cancelJobsWithTag(self._tag)

    def close(self) -> None:
        """Let what this thread does from now on be somebody else's."""
        with suppress(Exception):  # of a JVM that is gone
            self._context.removeJobTag(self._tag)
            self._context.setInterruptOnCancel(False)
            self._context._jsc.setLocalProperty(POOL, None)  # noqa: SLF001 - PySpark's own takes no None
