"""What people see of pipelines: tables, calendars, progress and reports.

Everything here is a function of plans, states and views of runs; nobody here asks a server or a clock.
"""
