"""Read-only SQL over the tables of `system`: the catalog and the events, as of any manifest.

Promises: a query reads only files that one manifest of each domain names, unless it asks for a fresh read;
it changes nothing; it ends within its limits of time, memory and size without harm to other queries.
DataFusion runs in a worker process without a store, credentials or a network address, because a library
that runs out of memory ends its process.
Never writes and never decides anything. May import `core`, `storage`, `ledger`, `fold`, `events` and
`catalog`. No other package imports DataFusion.
"""
