"""Publishing: versions of plain Parquet tables, as a numbered chain of pointers (P35).

Promises that a version is published once, completely, and by the attempt that holds its partitions; that
readers see the last good version until then; and that files which were staged and never published are
collected. Never writes data files: workers do. May import catalog, ledger, storage and core.
"""
