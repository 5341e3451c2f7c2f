"""Ledger: what happened, durable before it is acknowledged (law 1), and each request at most once.

Promises: an acknowledged event is in a segment that the compactor will meet, exactly there and once;
a bad line is refused with its reason and its neighbours go on; the same idempotency key gives the same
answer, across crashes, and never another caller's.
Never: folds events into state, overwrites anything, or lists.
May enter: storage, core.
"""
