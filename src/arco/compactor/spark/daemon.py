"""The daemon that forks Spark's Python workers, with everything imported before the first fork.

Spark stops workers that are idle for a minute. Without this, the first cycle after a pause would wait for
each new worker to import the same libraries. Imported objects are frozen, so that the cycle collection that
Spark runs after each task skips them. Spark also reads the archives from which it is imported again before
each task, which takes longer than a small task; they never change, so that is turned off.
"""

import gc
from zipimport import zipimporter

from pyspark.daemon import manager

from arco.compactor.spark import tasks

__all__ = ["manager", "tasks"]


def _keep_caches(_archive: zipimporter) -> None:
    """Replaces the method that makes Python read an archive again."""


if __name__ == "__main__":
    gc.freeze()
    zipimporter.invalidate_caches = _keep_caches  # type: ignore[assignment, method-assign]
    manager()  # type: ignore[no-untyped-call]
