"""Ledger: events that are durable before they are acknowledged (law 1), and requests that run at most once.

Promises: an acknowledged event is stored once, in a segment that the compactor will read; a bad line is
refused with a reason, and the other lines of its batch are stored; the same idempotency key gets the same
answer, across crashes, and never the answer of another caller.
Never: folds events into state, overwrites an object, or lists outside of garbage collection and repair.
May import: storage, core.
"""
