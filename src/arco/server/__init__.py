"""The processes of Arco: how services are put together, what runs beside requests, and how they end.

Promises: a process that starts either serves or fails with an error that names the setting to change; a
background failure is logged and counted; a stop releases leases, or ends by a deadline. A Spark child may
be killed at any moment: nothing exists until a manifest names it.

Never parses a command line nor prints, except the line that a server is ready. The settings are the
dataclasses that commands take as their flags.

May import every package except `cli` and `client`.
"""
