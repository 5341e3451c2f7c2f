"""Iceberg tables and views: their metadata is Iceberg's, their names are rows of the catalog.

Promises: a commit is applied once or not at all; no reader sees half of a transaction; members of the
metadata that Arco does not know survive. Never: knows HTTP, writes Parquet, or imports asyncio. May
import core, storage, ledger, events, fold, catalog and access.
"""
