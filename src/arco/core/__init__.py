"""Core: what every package needs and that depends on none of them.

Promises: ids, time, randomness, sleep and concurrency are arguments (`Runtime`), so that the same protocol
runs on asyncio and under the simulator; one tree of errors; one way to write and read JSON; one definition
of a tenant's scope; one back-off, keyed lock and bounded cache.
Never: touches a store, a socket or a file of a store.
May import: no other package of Arco.
"""
