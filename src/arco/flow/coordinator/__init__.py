"""The coordinator: one process per workspace that runs plans by leasing their tasks to workers.

Promises that every decision is in the ledger before a worker or a caller learns of it, so a restart
resumes all runs. Workers reach it through `Coordinator` in `ports`, in the same process or over HTTP.
Never executes a task and knows no Spark. May import plan, partition, events, catalog, ledger, storage,
core.
"""
