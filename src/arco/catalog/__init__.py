"""Tier 1: the objects of the catalog, how they are changed, and how they are read as of any time.

Promises: an acknowledged change is in a manifest that all readers see; a refusal depends on published state
only; every read is of one manifest. Never writes Parquet or manifests: it decides rows, appends them to the
ledger, and has the implementation of `CompactorPort` publish them (law 4). May import `core`, `storage`,
`ledger` and `fold`.
"""
