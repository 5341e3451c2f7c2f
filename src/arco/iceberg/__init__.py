"""The Iceberg room: tables and views whose metadata are Iceberg's, behind the names of the catalog.

It promises that a commit is applied once or not at all, that nobody sees half of a transaction, and that
what it does not understand in a table's metadata survives. It knows nothing of HTTP, and never writes
Parquet. It may enter core, storage, ledger, fold, catalog and access.
"""
