"""Jobs: what a thread had Spark do, and whether rows were read by it without a query.

No listener hears of work on RDDs (`df.rdd`, `foreach`) or in a session that the code opened for itself.
But a job has the tags of the thread that began it, and one of a query that of its session as well. So a job
that has the first without the second, and has read rows, is one whose plan nobody has seen. To look for the
schema of files takes a job too: it goes by the name of the method that opens them, and what it looks at is
told by the query that reads them. `toLocalIterator` has both tags, and still no listener is told of it.
"""

from contextlib import suppress

from pyspark.sql import SparkSession

from arco.flow.spark.jvm import session_tag
from arco.flow.spark.lineage.java import Java, texts

# That there are more is enough to doubt.
_MOST_JOBS = 200  # to look into
_MOST_NAMES = 1_000  # to ask for: of as many as Spark remembers
_OPENS = frozenset(("csv", "json", "load", "orc", "parquet", "sql", "table", "text", "xml"))
_OF_QUERIES = "spark-session-"
_UNTOLD = "toLocalIterator"


class Jobs:
    """The jobs of this thread, from now until it is closed."""

    def __init__(self, session: SparkSession) -> None:
        self._context = session.sparkContext
        self._of_session = session_tag(session)
        self._of_thread = f"arco-watched-{self._of_session}"
        self._context.addJobTag(self._of_thread)

    def close(self) -> None:
        """Let what this thread does from now on be somebody else's."""
        with suppress(Exception):  # of a JVM that is gone
            self._context.removeJobTag(self._of_thread)

    def unseen(self) -> bool:
        """Whether rows were read by a job that was no query of the session.

        Spark remembers the last thousand jobs, of all threads together.
        """
        context: Java = self._context._jsc.sc()  # noqa: SLF001 - there is no other way to it
        tracker = context.statusTracker()
        jobs = set(tracker.getJobIdsForTag(self._of_thread))
        others = sorted(jobs - set(tracker.getJobIdsForTag(self._of_session)))
        if len(others) > _MOST_JOBS or any(self._reads(context, job) for job in others):
            return True
        told, store = jobs.difference(others), context.statusStore()
        return len(told) > _MOST_NAMES or any(_name(store.job(job)) == _UNTOLD for job in told)

    def _reads(self, context: Java, job: int) -> bool:
        info = context.statusTracker().getJobInfo(job)
        if info.isEmpty() or self._is_told(context.statusStore().job(job)):
            return False
        return any(_rows_read(context, int(stage)) for stage in info.get().stageIds())

    def _is_told(self, job: Java) -> bool:
        """Whether it is of a query of the session, perhaps one inside another, or looks for a schema."""
        tags = texts(job.jobTags())
        if any(tag.startswith(_OF_QUERIES) for tag in tags):
            return any(tag.startswith(self._of_session) for tag in tags)
        return _name(job) in _OPENS


def _name(job: Java) -> str:
    """The method that began a job."""
    return str(job.name()).partition(" ")[0]


def _rows_read(context: Java, stage: int) -> bool:
    try:
        return int(context.statusStore().lastStageAttempt(stage).inputRecords()) > 0
    except Exception:  # a stage that was skipped, as its rows were there already, is not known
        return False
