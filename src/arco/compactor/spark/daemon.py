"""The daemon that forks Spark's Python workers, with everything imported before the first fork.

Spark stops workers that were idle for a minute. Without this, the first cycle after a pause would wait for
each new worker to import the same libraries again. What is imported never goes away, so that the search for
cycles, which Spark makes after each task, need not look at it. Nor do the archives change that Spark itself
is imported from; it would have them read anew before each task, which takes longer than a small one.
"""

import gc
from zipimport import zipimporter

from pyspark.daemon import manager

from arco.compactor.spark import tasks

__all__ = ["manager", "tasks"]


def _nothing_changes(_archive: zipimporter) -> None:
    """What Python calls to have an archive read anew."""


if __name__ == "__main__":
    gc.freeze()
    zipimporter.invalidate_caches = _nothing_changes  # type: ignore[assignment, method-assign]
    manager()  # type: ignore[no-untyped-call]
