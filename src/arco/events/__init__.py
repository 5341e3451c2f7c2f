"""Tier 2: what may be told of executions, tasks, partitions, quality, lineage and statistics.

Promises: every event type has a typed payload, a version and an example, and is read for ever; what an
event says becomes rows of the tables of state without a look at anything else, so that any order will do
(law 7).
Never reads a store or a clock. May enter `ledger`, `fold` and `core`.
"""
