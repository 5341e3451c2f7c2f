"""Tables of state, declared as data, and the one operation that makes state of events: the fold.

Promises: any order, duplication, delay and batching of the same rows gives the same rows (law 7). State
rows and event rows are the same kind of thing, so folding state with news is folding. Never reads a store,
a clock or a configuration. May enter `core` only.
"""
