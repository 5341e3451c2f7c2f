"""The Spark executor: carries tasks of pipelines out on any Spark.

It promises that nobody sees data before all their checks have held, that a task which is made again leaves
the same data, and that an attempt whose task was given to somebody else publishes nothing. Spark is started
when the first task needs it, and not before. It enters the definitions, partitions and ports of pipelines;
only modules in here import pyspark, and importing this package does not.
"""
