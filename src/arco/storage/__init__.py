"""Storage: one seam to every store, and the numbered chains that stand on it.

Promises: a create either returns, or says who else was there (`Conflict`), or that nobody knows yet
(`Unknown`), on every store alike (laws 2, 8, 9); no key leaves its scope (law 10); a handle does only
what its role may do (law 4); a store that cannot keep these promises is refused at start (law 13).
Never: lists on a path that correctness or latency depends on (law 6); knows what is in an object,
but for the links of a chain.
May enter: core.
"""
