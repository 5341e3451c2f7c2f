"""The HTTP plumbing of the API: server, connections, requests, routes, replies and error formats.

Promises: every request is bounded in size and time, is authorized before its handler runs, and ends in one
reply, one log line and one metric; an unexpected error becomes a 500 without internals in its body.
Never knows a resource of the catalog beyond the snapshot that a request reads. May import `access`,
`catalog`, `core`, `flow` (an error), `iceberg` (unresolved names) and `api.metrics`; the handlers of
`arco.api` build on it.
"""
