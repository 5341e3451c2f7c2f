"""State tables, declared as data, and the fold, which makes state of events.

Promises: any order, duplication, delay and batching of the same rows gives the same rows (law 7). Stored
rows and event rows have the same columns, so folding state with new events is the same operation. Never
reads a store, a clock or a configuration. May import `core` only.
"""
