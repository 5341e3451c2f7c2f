"""SQL over `system.*`, read only: the catalog and what events tell, as any manifest says it was.

Promises: a query reads the files that one manifest of each domain names, and nothing else, unless it asks
to be fresh; it changes nothing; whatever it is, it ends within its limits of time, memory and size, and
takes nobody down with it. DataFusion runs in a process of its own that has no store, no credentials and no
network address to ask, because a library that runs out of memory ends its process. Never writes, never
decides. May enter `core`, `storage`, `ledger`, `fold`, `events` and `catalog`; nobody else imports
DataFusion.
"""
