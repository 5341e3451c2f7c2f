"""The daemon that forks Spark's Python workers, with everything imported before the first fork.

Spark stops workers that were idle for a minute. Without this, the first cycle after a pause would wait for
each new worker to import the same libraries again. What is imported never goes away, so that the search for
cycles, which Spark makes after each task, need not look at it.
"""

import gc

from pyspark.daemon import manager

from arco.compactor.spark import worker

__all__ = ["manager", "worker"]

if __name__ == "__main__":
    gc.freeze()
    manager()  # type: ignore[no-untyped-call]
