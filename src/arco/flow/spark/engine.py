"""One Spark for all tasks of a worker: started when it is needed, and again after it was lost.

Each task gets a session: its queries, settings and views are its own, and interrupting it does not affect
other tasks. A JVM that has ended is noticed at the next call.
"""

import hashlib
import os
import sys
import zipfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from pyspark import SparkContext, SparkFiles
from pyspark.sql import SparkSession

from arco.flow.spark.jars import Jars, iceberg_jars
from arco.flow.spark.jvm import java_session, jvm_of
from arco.flow.spark.session import LOCAL, MEMORY, CatalogSettings, open_session
from arco.flow.spark.stores import store_settings
from arco.flow.worker.ports import CatalogStore

_EXIT_S = 10
_REGION = "AWS_REGION"
_ZIP_TIME = (1980, 1, 1, 0, 0, 0)  # so that the same modules make the same file
_ARCHIVE_PREFIX = "modules-"
_DIGEST_VARIABLE = "ARCO_MODULES"


@dataclass(frozen=True)
class SparkRequirements:
    """What a project reads and writes: catalogs with Iceberg tables, and where external tables lie."""

    catalogs: frozenset[str] = frozenset()
    store: CatalogStore = field(default_factory=CatalogStore)
    elsewhere: tuple[str, ...] = ()


@dataclass(frozen=True)
class SparkOpener:
    """Starts Spark for a project, with the catalogs and stores that it needs and no unneeded jars.

    `needs` is called at each start, as tables may have been added. So is `modules`: the project's modules
    as they were loaded, which all machines of Spark get.
    """

    url: str
    token: str | None
    needs: Callable[[], SparkRequirements]
    master: str = LOCAL
    settings: Mapping[str, str] = field(default_factory=dict)
    memory: str = MEMORY
    modules: Callable[[], Mapping[str, bytes]] | None = None

    def __call__(self) -> SparkSession:
        needs = self.needs()
        region = os.environ.get(_REGION)
        store = store_settings(needs.store, needs.elsewhere, self.settings, region)
        names = sorted(needs.catalogs)
        session = open_session(
            self.master,
            catalogs=[CatalogSettings(name, self.url, self.token, store.catalog) for name in names],
            jars=(iceberg_jars() if names else Jars()) + store.jars,
            settings={**store.settings, **self.settings},
            memory=self.memory,
        )
        if self.modules is not None:
            send_modules(session, self.modules())
        return session


class WorkerSpark:
    """Starts Spark once for all tasks, and again after its JVM has ended."""

    def __init__(self, opener: Callable[[], SparkSession]) -> None:
        self._opener = opener
        self._root: SparkSession | None = None
        self._lock = Lock()

    def new_session(self) -> SparkSession:
        """A new session; Spark is started if it does not run."""
        with self._lock:
            if self._root is not None and not is_alive(self._root):
                self._root = None
                reset_gateway()
            if self._root is None:
                self._root = self._open()
            session = self._root.newSession()
        activate(session)
        return session

    def _open(self) -> SparkSession:
        """Start Spark; after a failure pyspark's state is reset, so that the next start is a new one."""
        try:
            return self._opener()
        except BaseException:
            reset_gateway()
            raise

    def lend(self) -> SparkSession | None:
        """A session for other purposes than tasks, if Spark runs."""
        with self._lock:
            root = self._root
            return root.newSession() if root is not None and is_alive(root) else None

    def send_modules(self, modules: Mapping[str, bytes]) -> None:
        """Replace the project's modules in a running Spark; the opener sends them to a later one."""
        with self._lock:
            if self._root is not None and is_alive(self._root):
                send_modules(self._root, modules)

    @property
    def is_open(self) -> bool:
        """Whether Spark was started and not closed."""
        return self._root is not None

    def close(self) -> None:
        """Stop Spark, and the JVM with it."""
        with self._lock:
            if self._root is not None:
                with suppress(Exception):  # it may have ended already
                    self._root.stop()
                self._root = None
                reset_gateway()


def is_alive(session: SparkSession) -> bool:
    """Whether the JVM behind a session runs and its context was not stopped."""
    try:
        return not session.sparkContext._jsc.sc().isStopped()  # noqa: SLF001
    except Exception:
        return False


def reset_gateway() -> None:
    """Reset pyspark's state, which would keep using a JVM that has ended."""
    gateway = SparkContext._gateway  # noqa: SLF001 - pyspark has no public access
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
            if process.stdin is not None:
                process.stdin.close()
            process.terminate()
            process.wait(_EXIT_S)


def activate(session: SparkSession) -> None:
    """Make a session the one of this thread: Java finds catalogs by the settings of the active session."""
    java = SparkSession._get_j_spark_session_class(jvm_of(session))  # noqa: SLF001
    java.setActiveSession(java_session(session))


def send_modules(session: SparkSession, modules: Mapping[str, bytes]) -> None:
    """Send a project's modules, by their paths in it, to all machines of Spark; they replace earlier ones.

    What a function refers to is sent with it, but not what it imports only when it runs. A Python worker
    keeps what it has imported for later tasks. So the digest of the modules is in the environment of the
    workers: Spark reuses a worker only for functions with the same environment, and new workers import
    changed modules. This process imports modules in its own way, and must not find them in the archive,
    which lies in a folder that Spark removes when it ends.
    """
    context = session.sparkContext
    includes = context._python_includes  # noqa: SLF001 - pyspark has no call to remove files
    if includes is not None:
        includes[:] = [each for each in includes if not each.startswith(_ARCHIVE_PREFIX)]
    if not modules:
        context.environment.pop(_DIGEST_VARIABLE, None)
        return
    digest = hashlib.sha256(repr(sorted(modules.items())).encode()).hexdigest()[:12]
    folder, path = Path(SparkFiles.getRootDirectory()).parent, list(sys.path)
    try:
        context.addPyFile(str(_write_archive(modules, folder / f"{_ARCHIVE_PREFIX}{digest}.zip")))
    finally:
        sys.path[:] = path
    context.environment[_DIGEST_VARIABLE] = digest


def _write_archive(modules: Mapping[str, bytes], path: Path) -> Path:
    folders = {f"{each.as_posix()}/" for name in modules for each in Path(name).parents}
    files = sorted(modules.items())
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        # Python finds a folder without `__init__.py` by its entry.
        for name, code in [*((each, b"") for each in sorted(folders - {"./"})), *files]:
            archive.writestr(zipfile.ZipInfo(name, _ZIP_TIME), code)
    return path
