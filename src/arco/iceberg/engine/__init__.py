"""The metadata engine: what an Iceberg table or view is, and what a commit makes of it.

Pure functions from metadata, as decoded JSON, to metadata: no store, no clock, no names. It promises the
meaning of the reference implementation, keeps what it does not understand, and never changes what it was
given. It may enter core, and the catalog's words for columns and types.
"""
