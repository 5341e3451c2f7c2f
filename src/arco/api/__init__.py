"""The HTTP APIs: routes, limits, identity at the door, errors as JSON; no logic of their own.

The native API is here; a protocol beside it is a package of its own, behind the same edge. Promises: every
route stands in one table with its operation, and that operation is authorized before anything is read;
whatever a stranger sends is answered with a 4xx, or with a 503 and a time to come back; no answer, log line
or trace shows a token, a signed URL or a path of the store. Never decides anything about the catalog. May
enter every room but `compactor`, which it reaches through a port, and `cli`.
"""
