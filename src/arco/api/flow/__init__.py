"""Pipelines over HTTP: the state that plans are made of, runs, and the calls of workers.

Promises: thin handlers over the book of runs, in the very types that it speaks in. Calls that wait
are bounded, take nobody's place, and end soon after their caller has left.
Never decides anything about a run itself.
"""
