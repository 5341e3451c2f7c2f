"""The Spark executor: runs tasks of pipelines on any Spark.

It promises that no reader sees data before all its checks have passed, that a task which is run again
leaves the same data, and that an attempt whose task was leased to another worker publishes nothing. Spark
is started when the first task needs it. It may import the definitions, partitions and ports of pipelines;
only modules of this package and of the compactor's Spark engine import pyspark, and importing this package
does not.
"""
