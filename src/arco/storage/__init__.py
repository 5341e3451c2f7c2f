"""Storage: one interface to every object store, and the numbered chains on top of it.

Promises: a create returns, or reports that another process was first (`Conflict`), or that the outcome is
not known (`Unknown`), on every store alike (laws 2, 8, 9); no key leaves its scope (law 10); a handle does
only what its role may do (law 4); a store that cannot keep these promises is refused at start (law 13).
Never: lists on a path that correctness or latency depends on (law 6); reads what is in an object, except
the entries of a chain.
May import: core.
"""
