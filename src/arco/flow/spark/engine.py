"""The engine: one Spark for all tasks of a worker, opened when it is needed and again when it was lost.

Each task gets a session of its own: its queries, settings and views are its alone, and stopping it leaves
the others alone. A JVM that has died is noticed by whoever asks it something next.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from threading import Lock

from pyspark import SparkContext
from pyspark.sql import SparkSession

from arco.flow.spark.jvm import java_of, jvm_of
from arco.flow.spark.parcel import send_modules

_GONE_S = 10


class SparkEngine:
    """Opens Spark once for all who ask, and anew once it does not answer any more."""

    def __init__(self, opener: Callable[[], SparkSession]) -> None:
        self._opener = opener
        self._root: SparkSession | None = None
        self._lock = Lock()

    def new_session(self) -> SparkSession:
        """A session of the caller's own; Spark is started if it does not run."""
        with self._lock:
            if self._root is not None and not answers(self._root):
                self._root = None
                forget_gateway()
            if self._root is None:
                self._root = self._open()
            session = self._root.newSession()
        activate(session)
        return session

    def _open(self) -> SparkSession:
        """Start Spark. If it dies on the way nothing of it is kept, so that the next one is a new one."""
        try:
            return self._opener()
        except BaseException:
            forget_gateway()
            raise

    def lend(self) -> SparkSession | None:
        """A session for something else than tasks, if Spark runs; it is not started for that."""
        with self._lock:
            root = self._root
            return root.newSession() if root is not None and answers(root) else None

    def send_modules(self, modules: Mapping[str, bytes]) -> None:
        """Replace the project's modules in a Spark that runs; one that is opened later asks for them."""
        with self._lock:
            if self._root is not None and answers(self._root):
                send_modules(self._root, modules)

    @property
    def is_open(self) -> bool:
        """Whether Spark was started and not let go of."""
        return self._root is not None

    def close(self) -> None:
        """Stop Spark, and the JVM with it."""
        with self._lock:
            if self._root is not None:
                with suppress(Exception):  # it may be gone already
                    self._root.stop()
                self._root = None
                forget_gateway()


def forget_gateway() -> None:
    """Let pyspark begin anew: it takes a JVM that has died for one that is there."""
    gateway = SparkContext._gateway  # noqa: SLF001 - there is no other way to it
    SparkContext._gateway = None  # noqa: SLF001
    SparkContext._jvm = None  # noqa: SLF001
    SparkContext._active_spark_context = None  # noqa: SLF001
    SparkSession._instantiatedSession = None  # noqa: SLF001
    if gateway is None:
        return
    with suppress(Exception):
        gateway.shutdown()
    process = getattr(gateway, "proc", None)
    if process is not None:
        with suppress(Exception):
            process.terminate()
            process.wait(_GONE_S)


def answers(session: SparkSession) -> bool:
    """Whether the JVM behind a session is there and has not been stopped."""
    try:
        return not session.sparkContext._jsc.sc().isStopped()  # noqa: SLF001
    except Exception:
        return False


def activate(session: SparkSession) -> None:
    """Make a session the one of this thread: Java finds catalogs by the settings of the active session."""
    java = SparkSession._get_j_spark_session_class(jvm_of(session))  # noqa: SLF001 - the only way
    java.setActiveSession(java_of(session))
