"""Real engines against the Iceberg catalog: nothing here is ours but the server.

Each suite runs its client as a user would, with the lines that `arco connect` prints. ICEBERG_URI and
ICEBERG_WAREHOUSE point all of them at another server; `python -m tests.interop.reference` runs one.
"""
