"""Tier 2 events: executions, tasks, partitions, quality, lineage, statistics, schedules and search.

Promises: every event type has a typed payload, a version and an example, and stays readable for ever;
an event becomes rows of the state tables without reading anything else, so events may arrive in any order
(law 7).
Never reads a store or a clock. May import `ledger`, `fold` and `core`.
"""
