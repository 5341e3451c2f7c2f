"""The engine on Spark: the same work as in process, in as many processes as there are cores.

Promises: bytes come and go through the storage seam alone, so that no committer, no rename and no cloud jar
is in the way; what a task answers are references. Never publishes. Only `session` and `engine` import
pyspark, and nobody imports them who does not want Spark.
"""
