"""Tier 1: the catalog's objects, how they are changed, and how they are read at any moment.

Promises: a change that was acknowledged is in a manifest that everybody sees; a refusal rests on state
that was really there; every read is of one manifest. Never writes Parquet or manifests: it decides rows,
appends them to the ledger, and asks whoever fills `CompactorPort` to publish them (law 4). May enter
`core`, `storage`, `ledger` and `fold`.
"""
