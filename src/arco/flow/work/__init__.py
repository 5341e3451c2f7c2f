"""Work: the loop of a worker, from the lease of a task to the word that it is done.

Promises that a worker which lost its lease stops and says so, that cancelling and timeouts reach the
engine, and that nothing of a task outlives it. Knows no Spark: whoever executes is behind a port, and so is
the book of runs. May enter runs, plans, definitions, partitions and core.
"""
