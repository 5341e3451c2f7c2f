"""The compaction engine on Spark.

Promises: tasks read and write through the store alone, without Spark's committers, renames or cloud jars,
and answer with references. Never publishes. Only `session`, `engine` and `daemon` import pyspark, and they
are imported only when Spark is used. May import `compactor` and what that may import.
"""
