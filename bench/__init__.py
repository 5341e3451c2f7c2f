"""Benchmarks: each prints a figure and its ratio to a baseline measured in the same run.

Never a timed test: a machine may be busy. `python -m bench` runs all, `python -m bench append` one.
"""
