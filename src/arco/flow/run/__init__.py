"""Runs: who does which task when, and what became of it.

The book of runs lives in one process and decides: it takes plans, gives tasks to workers for a time, takes
back what they lose, and tells the ledger of everything before it tells anybody else, so that a restart
forgets nothing. Workers reach it through a port, in the same process or over HTTP.
Never runs a task itself and knows no Spark. May enter plans, partitions, events, catalog, ledger, storage.
"""
