"""Reads of events for operators: runs and their tasks, partitions, health and statistics of tables.

Promises: all queries of one answer read the same manifest, and so do all pages of a list.
Never reads the store: it asks the SQL engine, with every value of a client as a literal. May import what
`arco.api` may import.
"""
