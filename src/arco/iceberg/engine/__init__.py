"""The metadata engine: checks Iceberg metadata and applies the updates of a commit to it.

Pure functions from metadata, as decoded JSON, to metadata: no store, no clock, no names. It promises
the semantics of the Java reference implementation, keeps unknown members and never changes its input.
It may import core, and the catalog's types for columns.
"""
