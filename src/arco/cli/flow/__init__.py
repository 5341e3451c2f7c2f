"""Pipelines on the command line: projects, plans, runs and workers.

Promises the same flags, exit codes and documents for every command, and that what a person sees is what the
book of runs says. Decides nothing itself: planning, running and executing are rooms of their own.
"""
