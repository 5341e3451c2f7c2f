"""Core: what every room stands on, and what stands on nothing.

Promises: ids, time, randomness, sleep and concurrency arrive as arguments (`Runtime`), so that the
same protocol runs on asyncio and under the simulator; one tree of errors; one way to write and to
read JSON; one place where a tenant's scope is spelled.
Never: touches a store, a socket or a file.
May enter: no other room.
"""
