"""Reading: what pipelines have to know of the past, asked of the tables of events and of the catalog.

Promises that all that was acknowledged before a question is in its answer. Asks in columns, since a table
may have a hundred thousand partitions. Never writes, and reads no object of the store itself but by the
SQL engine and the catalog. May enter plans, runs, query, catalog and core.
"""
