"""Arco Flow: pipelines of assets and tasks, from definitions to materialized partitions.

`define` reads projects, `partition` names partitions, `plan` decides what to run, `coordinator` runs plans,
`worker` executes tasks with an executor such as `spark`, `publish` commits plain Parquet tables, `lineage`
reads column lineage out of query plans.

Promises: a run publishes each partition of its plan once, after its checks have passed, and every decision
is an event. Never compacts state and never decides who may do what.
May import `catalog`, `events`, `ledger`, `storage` and `core`.
"""
