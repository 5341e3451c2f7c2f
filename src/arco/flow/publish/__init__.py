"""Publishing: versions of plain Parquet tables, as a numbered chain of pointers (P35).

Promises that a version is published once, whole, and by the attempt that holds its partitions; that readers
see the last good version until then; and that what was staged and never published is found and collected.
Never writes data files: workers do. May enter catalog, ledger, storage and core.
"""
