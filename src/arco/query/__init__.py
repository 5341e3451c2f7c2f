"""SQL over `system.*`, read only: the catalog as tables, as any manifest says it was.

Promises: a query reads the files that one manifest names, and nothing else; it changes nothing; whatever it
is, it ends within its limits of time, memory and size, and takes nobody down with it. DataFusion runs in a
process of its own that has no store, no credentials and no network address to ask, because a library that
runs out of memory ends its process. Never writes, never decides. May enter `core`, `storage`, `ledger`,
`fold` and `catalog`; nobody else imports DataFusion.
"""
