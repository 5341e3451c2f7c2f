"""A loopback object store that answers in four dialects and misbehaves on request.

Promises: one strongly consistent map of objects per bucket, spoken to as S3 (at the root), as
Google Cloud Storage's XML and JSON APIs (under ``/_gcs``) and as Azure Blob (under ``/_azure``);
and, where a script says so, the faults that real stores have: an error after the write was
applied, a dropped connection, a 409 with nothing stored, a delivery made twice.

Never: checks a signature, keeps anything on disk, or listens beyond 127.0.0.1.

It is a test double at the store seam and enters no room of the product. Start it from a test or
a benchmark with ``tests.faults.running.running_server``, or as a process with
``python -m tests.faults.server``.
"""
