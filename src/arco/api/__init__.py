"""The HTTP APIs: the native API here, the Iceberg REST catalog in `iceberg`, the plumbing in `http`.

Promises: every route is in a table with its operation, and that operation is authorized before anything is
read; bad input is answered with a 4xx, overload with a 503 and Retry-After; no answer, log line or trace
contains a token, a signed URL or a path of the store.
Never decides anything about the catalog. May import every package but `compactor`, which it reaches through
a port, and `cli`.
"""
