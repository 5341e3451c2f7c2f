"""Pipelines over HTTP: the state that plans are made from, runs, and the calls of workers.

Promises: thin handlers over the coordinator, in its own types. Long polls are bounded, are not counted as
requests in flight, and end soon after their client has disconnected.
Never decides anything about a run. May import `arco.flow` and what `arco.api` may import.
"""
