"""The worker: leases tasks from the coordinator, executes them, and reports how each attempt ended.

Promises that a worker which lost its lease stops, that cancellation and timeouts reach the executor, and
that an end is reported until the coordinator has it. Knows no Spark: `ports` names the executor that it
calls. May import coordinator (messages and ports), plan, define, publish and core.
"""
