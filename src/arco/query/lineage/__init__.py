"""Lineage, walked: what a table is made of, what is made of it, and what depends on a column.

Promises: an answer is of one manifest of the domain `lineage`, or fresh, and of the newest of the catalog;
an edge is shown only while the data of its target may have been made by a run that showed it;
the same state gives the same bytes; cycles end; tables are told by the names that they have now, and those
that were dropped or were never in the catalog are told too, and marked. The edges of a manifest are read
once, into arrays that are walked without Python objects. Never writes, never runs SQL of a caller. May
enter what `query` may.
"""
