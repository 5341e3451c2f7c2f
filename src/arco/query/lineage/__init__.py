"""Lineage: the tables that a table is made of, those made of it, and the columns that depend on a column.

Promises: a response is of one manifest of the domain `lineage`, or a fresh read, and of the newest manifest
of the catalog; an edge is shown only while the data of its target may be from a run that observed it; the
same state gives the same bytes; walks end even if there are cycles; tables have their current names, and
dropped and external tables are shown and marked. The edges of a manifest are read once, into arrays that
are walked without Python objects.
Never writes and never runs SQL of a caller. May import what `query` may.
"""
